# SPDX-License-Identifier: Apache-2.0

"""What the project is built, measured and tested with; none of it is shipped."""
