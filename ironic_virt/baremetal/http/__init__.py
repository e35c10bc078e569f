# SPDX-License-Identifier: Apache-2.0

"""How requests reach Ironic and answers come back; nothing else sends HTTP."""
