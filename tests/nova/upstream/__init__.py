# SPDX-License-Identifier: Apache-2.0

"""Nova's own unit tests of its ironic driver, run against ours; ``cases.toml`` says which."""
