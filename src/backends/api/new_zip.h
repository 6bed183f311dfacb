#pragma once
// A new zip archive of uncompressed files.

#include <memory>
#include <string>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs {

/// Thread-safe, except finish().
class NewZip {
 public:
  /// Nothing is at `path` before finish(); files are kept beside it until then. System errors.
  static Result<std::unique_ptr<NewZip>> make(const std::string& path);
  virtual ~NewZip() = default;

  /// Adds or replaces an entry. ENOSPC and other system errors; ENAMETOOLONG.
  virtual Result<> write(const std::string& name, Bytes content) = 0;
  /// Adds the entry of a folder. ENAMETOOLONG.
  virtual Result<> add_directory(const std::string& name) = 0;
  /// Removes the entry of a folder and all below it.
  virtual void remove_directory(const std::string& name) = 0;
  /// Writes the archive durably, folders before what is in them. EEXIST.
  virtual Result<> finish() = 0;
};

}  // namespace codecfs
