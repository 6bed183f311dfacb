#pragma once
// What the kernel has of a mount, and how it is notified of changes. Each member is thread-safe.

#include <atomic>
#include <memory>

#include "fs/given/absent_chunks.h"
#include "fs/given/invalidator.h"
#include "fs/given/kernel_pages.h"
#include "fs/given/metadata_given.h"
#include "fs/given/pages_given.h"
#include "fs/passthrough/passthrough.h"
#include "fs/passthrough/transport.h"

namespace codecfs::fs {

struct KernelSide {
  KernelSide() = default;
  KernelSide(const KernelSide&) = delete;
  KernelSide& operator=(const KernelSide&) = delete;

  Invalidator* invalidator = &no_kernel_;  // set before there are requests
  AbsentChunks absent_chunks;
  MetadataGiven metadata_given;
  /// Whether names of chunks were ever shown although their look-up had failed: Namespace::known().
  std::atomic<bool> shows_unfound = false;
  // How decoded chunks reach their readers: not automatic. Constant from the first request on.
  Transport transport = Transport::push;
  std::unique_ptr<Passthrough> passthrough;  // for that transport, else null
  KernelPages pages;
  PagesGiven pages_given;

 private:
  Invalidator no_kernel_;
};

}  // namespace codecfs::fs
