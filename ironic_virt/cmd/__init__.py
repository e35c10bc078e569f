# SPDX-License-Identifier: Apache-2.0

"""The console scripts: argument parsing and output, nothing else."""
