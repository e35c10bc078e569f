# SPDX-License-Identifier: Apache-2.0

"""What is made of the mutants that survive."""
