# SPDX-License-Identifier: Apache-2.0

"""Hand the build over to pbr, which reads setup.cfg and git."""

import setuptools  # isort: split

from distutils.command.install_data import install_data  # setuptools brings it


class InstallBesidePackages(install_data):
    """Put data files where the packages go: Python reads a ``.pth`` file only there."""

    def finalize_options(self):
        """Take the directory of the packages for that of data."""
        self.set_undefined_options("install", ("install_lib", "install_dir"))
        super().finalize_options()


class Distribution(setuptools.Distribution):
    """One whose data files lie beside the packages; pbr drops a ``cmdclass``."""

    def has_data(self):
        """Whether an editable installation, too, is to have data files."""
        return self.has_data_files()

    def get_command_class(self, command):
        """Take our own to install data."""
        if command == "install_data":
            return InstallBesidePackages
        return super().get_command_class(command)


setuptools.setup(
    setup_requires=["pbr>=6.1.1"],
    pbr=True,
    distclass=Distribution,
    # Nova finds the driver by it.
    data_files=[("", ["etc/ironic_virt_nova.pth"])],
)
