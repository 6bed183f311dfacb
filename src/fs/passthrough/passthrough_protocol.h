#pragma once
// The part of the FUSE protocol that makes the kernel read backing files (Linux 6.9, protocol 7.40). libfuse has calls
// for it since 3.17. What older versions, from 3.14 on, do not know is put into their replies on the way to the kernel.
// With libfuse before 3.14 there is no passthrough.

#include <cstdint>

#include "fs/passthrough/backing_device.h"
#include "fs/passthrough/fuse_version.h"
#include "fs/passthrough/memory_files.h"

namespace codecfs::fs {

/// Makes the session offer passthrough to the kernel. Must be called after the mount, and before the INIT request is
/// answered. EOPNOTSUPP.
Result<> offer_passthrough(fuse_session* session);
/// To be called by the operation `init`, on a session that offers passthrough.
void request_passthrough(fuse_conn_info* connection);
/// Whether the kernel knows passthrough; valid when INIT is answered.
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
