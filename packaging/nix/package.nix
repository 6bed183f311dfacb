# codecfs from this checkout, in the form of nixpkgs' packages (callPackage): packaging/README.md.
{
  lib,
  stdenv,
  cmake,
  gzip,
  ninja,
  pkg-config,
  nlohmann_json,
  cli11,
  fmt,
  spdlog,
  fuse3,
  libseccomp,
  curl,
  openssl,
  expat,
  libdeflate,
  zstd,
  c-blosc,
  lz4,
  xz,
  hdf5,
  bzip2,
  libaec,
  liblzf,
  zfp,
  zlib,
}:

stdenv.mkDerivation {
  pname = "codecfs";
  version = builtins.head (
    builtins.match ".*project\\(codecfs VERSION ([0-9.]+).*" (builtins.readFile ../../CMakeLists.txt)
  );

  # Not what was built here, and not the history.
  src = lib.cleanSourceWith {
    src = ../..;
    filter =
      path: type:
      !(builtins.elem (baseNameOf path) [
        ".cache"
        ".git"
        "build"
      ]);
  };

  strictDeps = true;

  nativeBuildInputs = [
    cmake
    gzip
    ninja
    pkg-config
  ];

  # In the order of cmake/dependencies.cmake.
  buildInputs = [
    nlohmann_json
    cli11
    fmt
    spdlog
    fuse3
    libseccomp
    curl
    openssl
    expat
    libdeflate
    zstd
    c-blosc
    lz4
    xz
    hdf5
    bzip2
    libaec
    liblzf
    zfp
    zlib
  ];

  cmakeFlags = [
    "-DBUILD_TESTING=OFF"
    "-DCODECFS_HELPER_DIR=sbin"
    "-DPLUGIN_INSTALL_DIR=${placeholder "out"}/lib/hdf5/plugin"
  ];

  # No mount: a sandbox has no /dev/fuse.
  doInstallCheck = true;
  installCheckPhase = ''
    runHook preInstallCheck
    sh $src/packaging/smoke-test $out
    runHook postInstallCheck
  '';

  meta = {
    description = "FUSE filesystem that mounts HDF5, netCDF-4 and Zarr with the filters taken out";
    license = lib.licenses.bsd3;
    mainProgram = "codecfs";
    platforms = lib.platforms.linux;
  };
}
