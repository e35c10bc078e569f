# SPDX-License-Identifier: Apache-2.0

"""Hand the build over to pbr, which reads setup.cfg and git."""

import setuptools

setuptools.setup(setup_requires=["pbr>=6.1.1"], pbr=True)
