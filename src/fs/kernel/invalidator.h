#pragma once
// What the kernel must forget because it changed without the kernel's knowledge, and what it may take into its page
// cache. The one way from the filesystem to the kernel's notify calls. All functions are safe from all threads.

#include <cstdint>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "fs/namespace/nodes.h"

namespace codecfs::fs {

/// This base class does nothing: for a tree without a kernel.
class Invalidator {
 public:
  Invalidator() = default;
  Invalidator(const Invalidator&) = delete;
  Invalidator& operator=(const Invalidator&) = delete;
  virtual ~Invalidator() = default;

  // `wait`: returns when the kernel has done it, at most a second later.

  /// The pages and attributes of an inode are other ones.
  virtual void content_changed(Ino, bool /*wait*/) {}
  /// A part of its content, in bytes (at least one), and its attributes.
  virtual void part_changed(Ino, uint64_t /*offset*/, uint64_t /*size*/, bool /*wait*/) {}
  /// As content_changed(), of `count` consecutive inodes. `wait`: for as long as each second some are done.
  virtual void contents_changed(Ino /*first*/, uint64_t /*count*/, bool /*wait*/) {}
  /// The attributes alone of `count` consecutive inodes.
  virtual void attributes_changed(Ino /*first*/, uint64_t /*count*/, bool /*wait*/) {}
  /// A name in a directory means another inode or none, and so do all names below it. Do not wait in a request that
  /// changes this directory.
  virtual void name_changed(Ino /*parent*/, std::string /*name*/, bool /*wait*/) {}
  /// Several names that came into being in a directory, without waiting for it.
  virtual void names_changed(Ino /*parent*/, std::vector<std::string> /*names*/) {}
  /// Makes the kernel write back and forget a part of a file, and waits until it has. Only from a thread that serves no
  /// request.
  virtual void drop_pages(Ino, uint64_t /*offset*/, uint64_t /*size*/) {}
  /// Puts content into the kernel's page cache. False if the kernel does not take it.
  virtual bool store_pages(Ino, uint64_t /*offset*/, Bytes) { return false; }
};

}  // namespace codecfs::fs
