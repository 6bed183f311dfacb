#pragma once
// What the kernel's side of the FUSE protocol has and an older libfuse does not:
//
// Passthrough: the kernel reads backing files (Linux 6.9, protocol 7.40). libfuse has calls for it since 3.17.
//
// Parallel look-ups (and readdir) in one directory (Linux 4.7). libfuse passes this on since 3.17: before, each look-up
// in a directory waits for the one before, however long that takes. They are for sources whose look-ups wait for a
// network. Look-ups of a local source work, and many would take all threads: the size of a converted chunk, for
// instance, is found by converting it, and its file must be read before that is done for too many others.
//
// With libfuse 3.14 to 3.16, both are put into its replies on the way to the kernel; with older ones there is neither.

#include <cstdint>

#include "fs/passthrough/backing_device.h"
#include "fs/passthrough/fuse_version.h"
#include "fs/passthrough/memory_files.h"

namespace codecfs::fs {

/// Has the replies of an older libfuse completed. Must be called after the mount, and before the INIT request is
/// answered. EIO.
Result<> complete_replies(fuse_session* session);
struct NewerFeatures {
  bool passthrough = false;
  bool parallel_lookups = false;
};
/// To be called by the operation `init`, with what to offer.
void complete_init(fuse_conn_info* connection, NewerFeatures offered);
/// Whether the kernel knows passthrough, and libfuse can offer it; valid when INIT is answered.
bool kernel_has_passthrough();

/// As fuse_reply_open(). `backing_id`: 0 for an open without a backing file. Direct and cached opens must not have one.
int reply_open(fuse_req_t request, const fuse_file_info& info, int32_t backing_id);

/// The backing files of a session, in memory.
class FuseBackingDevice final : public BackingDevice {
 public:
  /// `device`: the descriptor of the session, which must stay open while functions are called.
  FuseBackingDevice(int device, MemoryFiles files) : device_(device), files_(std::move(files)) {}

  Result<int32_t> store(Bytes content) override;
  Result<int32_t> open(int file) override;
  void close(int32_t id) override;
  [[nodiscard]] const MemoryFiles& files() const { return files_; }

 private:
  const int device_;
  const MemoryFiles files_;
};

}  // namespace codecfs::fs
