# codecfs for Spack, built from a checkout (spack develop): packaging/README.md.
from spack_repo.builtin.build_systems.cmake import CMakePackage, generator

from spack.package import *


class Codecfs(CMakePackage):
    """FUSE filesystem that mounts HDF5, netCDF-4 and Zarr with the filters taken out."""

    license("BSD-3-Clause")

    # A release has an archive and a checksum; until there is one, the sources are those of
    # `spack develop --path`.
    version("0.1.0")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("gzip", type=("build", "test"))
    depends_on("pkgconfig", type="build")

    # In the order of cmake/dependencies.cmake.
    depends_on("nlohmann-json@3.11:")
    depends_on("cli11")
    depends_on("fmt")
    depends_on("spdlog")
    depends_on("libfuse@3.10:")
    depends_on("libseccomp~python")
    depends_on("curl@7.85:")
    depends_on("openssl@3.0:")
    depends_on("expat")
    depends_on("libdeflate")
    depends_on("zstd")
    depends_on("c-blosc")
    depends_on("lz4")
    depends_on("xz")
    depends_on("hdf5+hl~mpi")
    depends_on("bzip2")
    depends_on("libaec")
    depends_on("liblzf")
    depends_on("zfp")
    depends_on("zlib-api")

    conflicts("platform=darwin", msg="codecfs needs Linux's FUSE")
    conflicts("platform=windows", msg="codecfs needs Linux's FUSE")
    conflicts("%gcc@:11", msg="codecfs is written in C++23")

    def cmake_args(self):
        return [
            self.define("BUILD_TESTING", False),
            self.define("CODECFS_HELPER_DIR", "sbin"),
            self.define("PLUGIN_INSTALL_DIR", join_path(self.prefix.lib, "hdf5", "plugin")),
        ]

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def smoke_test(self):
        """Without a mount: not every machine that builds has /dev/fuse."""
        smoke_test = Executable(join_path(self.stage.source_path, "packaging", "smoke-test"))
        smoke_test(self.prefix)
