#!/bin/bash
# Called by rattler-build in a copy of the sources. CMAKE_ARGS comes with conda's compilers.
set -euo pipefail
# shellcheck disable=SC2086
cmake -S . -B build-conda -G Ninja ${CMAKE_ARGS:-} \
  -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_INSTALL_PREFIX="$PREFIX" \
  -DCMAKE_PREFIX_PATH="$PREFIX" \
  -DCMAKE_INSTALL_LIBDIR=lib \
  -DBUILD_TESTING=OFF \
  -DCODECFS_HELPER_DIR=sbin \
  -DPLUGIN_INSTALL_DIR="$PREFIX/lib/hdf5/plugin"
cmake --build build-conda -j "${CPU_COUNT:-2}"
cmake --install build-conda
