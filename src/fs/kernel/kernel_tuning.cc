#include "fs/kernel/kernel_tuning.h"

#include <fstream>

#include "base/log.h"
#include "base/mount_table.h"

namespace codecfs::fs {

void raise_readahead(const std::string& mountpoint, unsigned bytes) {
  const auto mount = mount_at(mountpoint);
  if (!mount) return;
  std::ofstream setting("/sys/class/bdi/" + mount->device + "/read_ahead_kb");
  setting << bytes / 1024 << std::flush;
  log::debug("read_ahead_kb of {} {}", mount->device, setting ? "raised" : "left as it is");
}

}  // namespace codecfs::fs
