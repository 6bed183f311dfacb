#pragma once
// Texts of metadata files, and encoded chunks, while they are being written. They mean nothing until they are whole, so
// they are kept here from open to close and then done as they say. All who have the file open for writing write the
// same text. Safe from all threads.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/buffer.h"
#include "base/result.h"
#include "fs/namespace/nodes.h"

namespace codecfs::fs {

class StagedFile {
 public:
  static constexpr uint64_t kMaxText = uint64_t{64} << 20;  // bytes

  /// `is_new`: the source has no such file, so that it is seen as this staged file before anything is written.
  StagedFile(Ino ino, std::string text, bool is_new, uint64_t max_bytes)
      : ino_(ino), max_bytes_(max_bytes), text_(std::move(text)), is_new_(is_new), shown_(is_new) {}

  /// Of the metadata file.
  [[nodiscard]] Ino ino() const { return ino_; }
  std::string text();
  /// Of the text, until it is done as it says: from then on the file is what the source has. Bytes.
  std::optional<uint64_t> shown_size();
  /// EFBIG.
  Result<> write(uint64_t offset, Bytes bytes);
  /// Cutting it is no change by itself: a shell cuts a file before it writes.
  Result<> resize(uint64_t size);
  struct Change {
    std::string text;
    /// Where it was written over a longer text from its beginning: what was written, which is meant where the whole
    /// makes no sense. Writers that know the text to be their own do not cut it first (netCDF-C).
    std::optional<std::string> without_rest;
  };
  /// The text, where it was written since this was last asked. From then on the file is shown as the source has it, but
  /// for a new one of which nothing was written yet.
  std::optional<Change> take_change();
  /// It is closed: a new file of which nothing was written is gone.
  void end();

 private:
  const Ino ino_;
  const uint64_t max_bytes_;
  std::mutex mutex_;  // guards all below
  std::string text_;
  bool changed_ = false;
  std::optional<uint64_t> written_ = 0;  // bytes from the beginning, written one after the other; none: in another way
  bool is_new_ = false;
  bool shown_ = false;
};

class StagedFiles {
 public:
  /// The staged file of a file, which begins with `text` where nobody has it open.
  std::shared_ptr<StagedFile> open(Ino ino, const std::string& text, bool is_new,
                                   uint64_t max_bytes = StagedFile::kMaxText);
  /// Null where nobody writes the file.
  std::shared_ptr<StagedFile> find(Ino ino);

 private:
  std::mutex mutex_;  // guards what follows
  std::map<Ino, std::weak_ptr<StagedFile>> staged_files_;
  size_t full_ = 1024;  // so many are searched for such as nobody has open any more
};

}  // namespace codecfs::fs
