# Everything comes from Debian 12 packages (scripts/packages.txt).
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
pkg_check_modules(FUSE3 REQUIRED IMPORTED_TARGET fuse3>=3.10)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
# Object stores.
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.85)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto>=3.0)
pkg_check_modules(EXPAT REQUIRED IMPORTED_TARGET expat)
pkg_check_modules(DEFLATE REQUIRED IMPORTED_TARGET libdeflate)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(BLOSC REQUIRED IMPORTED_TARGET blosc)
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(LZMA REQUIRED IMPORTED_TARGET liblzma)

# Debian's serial HDF5 has its own pkg-config name; elsewhere it is plain hdf5.
set(CODECFS_HDF5 hdf5-serial hdf5 CACHE STRING "names of HDF5 in pkg-config, the first that is there is taken")
pkg_search_module(HDF5 IMPORTED_TARGET ${CODECFS_HDF5})
if(NOT HDF5_FOUND)
  # Some builds of it have no file for pkg-config, and find_package(HDF5) fails with the library's name on Debian 14.
  find_library(HDF5_LIBRARY NAMES hdf5_serial hdf5 NAMES_PER_DIR REQUIRED)
  find_path(HDF5_INCLUDE_DIRS hdf5.h PATH_SUFFIXES hdf5/serial REQUIRED)
  cmake_path(GET HDF5_LIBRARY PARENT_PATH HDF5_LIBRARY_DIRS)
  add_library(PkgConfig::HDF5 INTERFACE IMPORTED)
  target_link_libraries(PkgConfig::HDF5 INTERFACE ${HDF5_LIBRARY})
  target_include_directories(PkgConfig::HDF5 INTERFACE ${HDF5_INCLUDE_DIRS})
endif()
find_library(HDF5_HL_LIBRARY NAMES hdf5_serial_hl hdf5_hl NAMES_PER_DIR HINTS ${HDF5_LIBRARY_DIRS} ${HDF5_LIBDIR} REQUIRED)

# No pkg-config files on Debian 12.
find_library(BZ2_LIBRARY bz2 REQUIRED)
find_library(SZ_LIBRARY NAMES sz REQUIRED)
find_library(AEC_LIBRARY NAMES aec REQUIRED)
find_library(LZF_LIBRARY lzf REQUIRED)
find_path(LZF_INCLUDE_DIR lzf.h PATH_SUFFIXES liblzf REQUIRED)  # upstream installs no directory for it
find_library(ZFP_LIBRARY zfp REQUIRED)

# scripts/make-portable: one program with everything but libc linked in.
option(CODECFS_PORTABLE "link what is linked statically, fmt and spdlog from their headers" OFF)
set(CODECFS_FMT fmt::fmt)
set(CODECFS_SPDLOG spdlog::spdlog)
if(CODECFS_PORTABLE)
  set(CODECFS_FMT fmt::fmt-header-only)
  # Debian's spdlog::spdlog_header_only has the library of fmt.
  add_library(codecfs_spdlog INTERFACE)
  target_compile_definitions(codecfs_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
  target_link_libraries(codecfs_spdlog INTERFACE fmt::fmt-header-only)
  set(CODECFS_SPDLOG codecfs_spdlog)
endif()
