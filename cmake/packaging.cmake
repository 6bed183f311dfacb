# What is installed beside the programs, and Debian packages of it all (scripts/make-packages): codecfs, and
# codecfs-plugins, whose plugins are where Debian's libhdf5 looks.
find_program(GZIP gzip REQUIRED)
# The one that makes packages for others is their maintainer (scripts/make-packages); this is no address.
set(CODECFS_MAINTAINER "codecfs authors <nobody@codecfs.invalid>" CACHE STRING "maintainer of the Debian packages")

# Compressed as in every distribution; the time of the file is not in it.
set(compressed ${CMAKE_CURRENT_BINARY_DIR}/compressed)
file(MAKE_DIRECTORY ${compressed})
set(all_compressed)
function(codecfs_compress source destination)
  get_filename_component(name ${source} NAME)
  get_filename_component(source ${source} ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
  add_custom_command(OUTPUT ${compressed}/${name}.gz
    COMMAND ${GZIP} -9nc ${source} > ${compressed}/${name}.gz
    DEPENDS ${source} VERBATIM)
  install(FILES ${compressed}/${name}.gz DESTINATION ${destination} ${ARGN})
  set(all_compressed ${all_compressed} ${compressed}/${name}.gz PARENT_SCOPE)
endfunction()

# A page for each command; the others have their section in their name as well.
file(GLOB pages CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/docs/man ${PROJECT_SOURCE_DIR}/docs/man/*.[0-9])
foreach(page ${pages})
  string(REGEX REPLACE ".*\\." "" section ${page})
  codecfs_compress(docs/man/${page} ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT codecfs)
endforeach()

install(FILES completions/codecfs.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME codecfs COMPONENT codecfs)
install(FILES completions/codecfs.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT codecfs)
# zsh looks there for what is installed by hand; Debian has a directory for packages.
install(FILES completions/_codecfs DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT by_hand)
install(FILES completions/_codecfs DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
        COMPONENT codecfs_debian EXCLUDE_FROM_ALL)

# For the software centres of desktops. An identifier is a domain in reverse; this one is none, as the maintainer's above.
set(CODECFS_APP_ID invalid.codecfs.codecfs CACHE STRING "AppStream identifier of the program")
configure_file(packaging/codecfs.metainfo.xml.in ${CMAKE_CURRENT_BINARY_DIR}/${CODECFS_APP_ID}.metainfo.xml @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${CODECFS_APP_ID}.metainfo.xml DESTINATION ${CMAKE_INSTALL_DATADIR}/metainfo COMPONENT codecfs)

set(doc ${CMAKE_INSTALL_DATADIR}/doc)
install(FILES README.md CHANGELOG.md SECURITY.md DESTINATION ${doc}/codecfs COMPONENT codecfs)
install(DIRECTORY docs DESTINATION ${doc}/codecfs COMPONENT codecfs FILES_MATCHING PATTERN "*.md" PATTERN "*.svg"
        PATTERN "man" EXCLUDE PATTERN "examples" EXCLUDE)
install(FILES docs/examples/mnt-era5.mount docs/examples/codecfs@.service docs/examples/fstab
        DESTINATION ${doc}/codecfs/examples COMPONENT codecfs)

# What only a Debian package has.
configure_file(packaging/changelog ${CMAKE_CURRENT_BINARY_DIR}/changelog @ONLY)
codecfs_compress(${CMAKE_CURRENT_BINARY_DIR}/changelog ${doc}/codecfs COMPONENT codecfs_debian EXCLUDE_FROM_ALL)
install(FILES packaging/copyright DESTINATION ${doc}/codecfs COMPONENT codecfs_debian EXCLUDE_FROM_ALL)
install(FILES packaging/lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME codecfs
        COMPONENT codecfs_debian EXCLUDE_FROM_ALL)
install(FILES packaging/copyright ${compressed}/changelog.gz DESTINATION ${doc}/codecfs-plugins
        COMPONENT plugins_debian EXCLUDE_FROM_ALL)
install(FILES plugins/README.md DESTINATION ${doc}/codecfs-plugins COMPONENT plugins_debian EXCLUDE_FROM_ALL)
add_custom_target(compressed_files ALL DEPENDS ${all_compressed})

# libhdf5's own plugin directory, by its configuration: Debian has one for each variant of the library.
find_file(HDF5_CONFIGURATION H5pubconf.h HINTS ${HDF5_INCLUDE_DIRS} REQUIRED)
file(STRINGS ${HDF5_CONFIGURATION} default_plugins REGEX "H5_DEFAULT_PLUGINDIR")
string(REGEX REPLACE ".*\"(.*)\".*" "\\1" default_plugins "${default_plugins}")
get_property(plugin_targets GLOBAL PROPERTY CODECFS_PLUGIN_TARGETS)
install(TARGETS ${plugin_targets} LIBRARY DESTINATION ${default_plugins} COMPONENT plugins_debian EXCLUDE_FROM_ALL
        PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME codecfs)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "${CODECFS_MAINTAINER}")
set(CPACK_PACKAGE_VENDOR codecfs)
set(CPACK_SET_DESTDIR ON)  # for what has an absolute place
set(CPACK_INSTALL_PREFIX /usr)
# CMake's own default: otherwise it would be the first line of both descriptions.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${CMAKE_PROJECT_NAME} built using CMake")
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL codecfs codecfs_debian plugins_debian)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENT_CODECFS_GROUP codecfs)
set(CPACK_COMPONENT_CODECFS_DEBIAN_GROUP codecfs)
set(CPACK_COMPONENT_PLUGINS_DEBIAN_GROUP plugins)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_CODECFS_PACKAGE_NAME codecfs)
set(CPACK_DEBIAN_CODECFS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_CODECFS_PACKAGE_DEPENDS "fuse3")
set(CPACK_DEBIAN_CODECFS_PACKAGE_SUGGESTS "codecfs-plugins, attr")
set(CPACK_DEBIAN_CODECFS_DESCRIPTION "mount HDF5, netCDF-4 and Zarr with the filters taken out
codecfs mounts an HDF5 or netCDF-4 file, a Zarr v2 directory or zip archive,
or a folder of them, as a directory tree in which compression has been taken
out. Every stored chunk is a plain file of decoded bytes; the tree is at the
same time a valid uncompressed Zarr store. It can be written as well.")
set(CPACK_DEBIAN_PLUGINS_PACKAGE_NAME codecfs-plugins)
set(CPACK_DEBIAN_PLUGINS_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PLUGINS_PACKAGE_ENHANCES "codecfs, hdf5-tools, python3-h5py, netcdf-bin")
set(CPACK_DEBIAN_PLUGINS_DESCRIPTION "filter plugins for HDF5 and netCDF: Zstandard, Blosc, LZ4, bzip2
Filters that HDF5 loads when a file needs them, so that h5py, h5dump,
h5repack, nccopy and ncdump read and write such files, and codecs for netCDF's
NCZarr. They are in the directory where libhdf5 looks by default.")

# An RPM package of the portable program (scripts/make-rpm), which fits any distribution that has RPM.
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_CODECFS_PACKAGE_NAME codecfs)
set(CPACK_RPM_CODECFS_PACKAGE_SUMMARY "Mount HDF5, netCDF-4 and Zarr with the filters taken out")
string(REGEX REPLACE "^[^\n]*\n" "" CPACK_RPM_CODECFS_PACKAGE_DESCRIPTION "${CPACK_DEBIAN_CODECFS_DESCRIPTION}")
set(CPACK_RPM_PACKAGE_LICENSE BSD-3-Clause)
if(CODECFS_PORTABLE)  # the licences of what is linked in
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/build/portable/codecfs-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR}/licenses
          DESTINATION ${doc}/codecfs COMPONENT by_hand)
endif()
set(CPACK_RPM_CODECFS_PACKAGE_REQUIRES fuse3)
# Directories of the system.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /sbin /usr/share/man /usr/share/man/man1 /usr/share/man/man7 /usr/share/man/man8
  /usr/share/bash-completion /usr/share/bash-completion/completions /usr/share/zsh /usr/share/zsh/site-functions
  /usr/share/fish /usr/share/fish/vendor_completions.d /usr/share/metainfo)
include(CPack)
