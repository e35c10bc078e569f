# SPDX-License-Identifier: Apache-2.0

"""Small faults in the code, one at a time: do the tests find each?"""
