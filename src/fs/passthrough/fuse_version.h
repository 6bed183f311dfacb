#pragma once
// Hides the differences between the supported libfuse versions: 3.12 (first with fuse_loop_cfg_*) to 3.17 and later.

#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 12)
#include <fuse_lowlevel.h>

namespace codecfs::fs {

/// Selects capabilities; those that the kernel does not support stay off. `parallel_lookups`: see complete_init().
inline void choose_capabilities(fuse_conn_info* connection, bool parallel_lookups) {
  // Splice replies are slower than one copy from a warm buffer.
  // AUTO_INVAL_DATA is not needed, because the daemon invalidates the kernel's caches itself.
  // Without READDIRPLUS_AUTO, operations.cc decides which entries are listed with attributes.
  unsigned unwanted = FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE | FUSE_CAP_AUTO_INVAL_DATA |
                      FUSE_CAP_READDIRPLUS_AUTO;
  constexpr unsigned wanted =
      FUSE_CAP_READDIRPLUS | FUSE_CAP_ASYNC_READ | FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_ATOMIC_O_TRUNC;
  if (!parallel_lookups) unwanted |= FUSE_CAP_PARALLEL_DIROPS;  // libfuse wants it by default
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
  for (unsigned bit = 1; bit != 0; bit <<= 1) {
    if (unwanted & bit) fuse_unset_feature_flag(connection, bit);
    if (wanted & bit) fuse_set_feature_flag(connection, bit);
  }
#else
  connection->want &= ~unwanted;
  connection->want |= wanted & connection->capable;
#endif
}

}  // namespace codecfs::fs
