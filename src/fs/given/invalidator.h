#pragma once
// Invalidates the kernel's caches after changes that the kernel has not seen, and stores content in its page cache. The
// filesystem sends notifications only through this interface. Thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "fs/nodes/nodes.h"

namespace codecfs::fs {

/// The base class does nothing, for a tree that is not mounted.
class Invalidator {
 public:
  Invalidator() = default;
  Invalidator(const Invalidator&) = delete;
  Invalidator& operator=(const Invalidator&) = delete;
  virtual ~Invalidator() = default;

  /// Whether there is a kernel: otherwise callers need not find out what it may have.
  [[nodiscard]] virtual bool has_kernel() const { return false; }

  // `wait`: returns when the kernel has done it, at most a second later.

  /// The pages and attributes of an inode have changed.
  virtual void content_changed(Ino, bool /*wait*/) {}
  /// A part of its content, in bytes (at least one), and its attributes.
  virtual void part_changed(Ino, uint64_t /*offset*/, uint64_t /*size*/, bool /*wait*/) {}
  /// As content_changed(), for `count` consecutive inodes. `wait`: as long as there is progress every second.
  virtual void contents_changed(Ino /*first*/, uint64_t /*count*/, bool /*wait*/) {}
  /// Only the attributes of `count` consecutive inodes have changed.
  virtual void attributes_changed(Ino /*first*/, uint64_t /*count*/, bool /*wait*/) {}
  /// A name in a directory, and all names below it, refer to other inodes or none. `wait` must not be set in a request
  /// that changes this directory.
  virtual void name_changed(Ino /*parent*/, std::string /*name*/, bool /*wait*/) {}
  /// Several names were created in a directory, in a request that does not change it. Returns when the kernel has been
  /// told, at most 20 ms later.
  virtual void names_changed(Ino /*parent*/, std::vector<std::string> /*names*/) {}
  /// Makes the kernel write back and drop a part of a file's pages, and waits until it has. Must not be called by a
  /// thread that serves a request.
  virtual void drop_pages(Ino, uint64_t /*offset*/, uint64_t /*size*/) {}
  /// Stores content in the kernel's page cache. False if the kernel refuses it.
  virtual bool store_pages(Ino, uint64_t /*offset*/, Bytes) { return false; }
};

}  // namespace codecfs::fs
