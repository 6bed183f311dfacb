#pragma once
// Metadata files and encoded chunks while they are being written. They can only be interpreted completely, so the text
// is kept from open to close and then applied. All descriptors that are open for writing share one text. Thread-safe.
//
// A reader gets a reference to the text, which stays as it was: a write copies the text if a reader holds it.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/buffer.h"
#include "base/mutex.h"
#include "base/result.h"
#include "fs/nodes/nodes.h"

namespace codecfs::fs {

class StagedFile {
 public:
  static constexpr uint64_t kMaxText = uint64_t{64} << 20;  // bytes

  /// `is_new`: the source has no such file, so that this staged file is shown before anything is written.
  StagedFile(Ino ino, std::string text, bool is_new, uint64_t max_bytes)
      : ino_(ino),
        max_bytes_(max_bytes),
        text_(std::make_shared<std::string>(std::move(text))),
        is_new_(is_new),
        shown_(is_new) {}

  /// Inode of the metadata file.
  [[nodiscard]] Ino ino() const { return ino_; }
  /// Another descriptor was opened, and the source has this text: the file begins with it unless it has changes that
  /// are not applied yet. A descriptor that was closed before may not be released yet.
  void begin(const std::string& text, bool is_new);
  /// The current text. Later changes do not change it.
  std::shared_ptr<const std::string> text();
  /// The text, if it was written from its beginning to its end without gaps; else null.
  std::shared_ptr<const std::string> text_if_written_whole();
  /// Size of the text in bytes, until it is applied: from then on the file is what the source has.
  std::optional<uint64_t> shown_size();
  /// What an open descriptor has written.
  class Descriptor {
    friend class StagedFile;
    bool has_written_ = false;  // since its change was taken; guarded by the mutex of the file
  };
  /// EFBIG. `descriptor`: null for a page of a mapping, which the kernel writes through any descriptor.
  Result<> write(uint64_t offset, Bytes bytes, Descriptor* descriptor);
  /// Truncation alone is not a change: a shell truncates a file before it writes.
  Result<> resize(uint64_t size);
  /// A text that is being applied: at the end of its lifetime it is in the source, or was refused. The file outlives
  /// it.
  class [[nodiscard]] Change {
   public:
    Change(Change&& other) noexcept
        : text(std::move(other.text)),
          without_rest(std::move(other.without_rest)),
          owner_(std::exchange(other.owner_, nullptr)) {}
    Change& operator=(Change&&) = delete;
    ~Change() {
      if (owner_ != nullptr) owner_->applied();
    }

    std::shared_ptr<const std::string> text;
    /// Set if a shorter text was written over the beginning of a longer one without truncation, as netCDF-C does: the
    /// new text alone, to be used if the whole text is invalid.
    std::optional<std::string> without_rest;

   private:
    friend class StagedFile;
    Change(StagedFile& owner, std::shared_ptr<const std::string> written, std::optional<std::string> alone)
        : text(std::move(written)), without_rest(std::move(alone)), owner_(&owner) {}

    StagedFile* owner_;
  };
  /// Returns the text if it was written since the last call. From then on the file is shown as the source has it,
  /// except for a new file without any writes yet. What only others than `descriptor` have written is left
  /// to them, as it may be a part of what they write. Without memory, the change is still to be taken.
  std::optional<Change> take_change(Descriptor& descriptor);
  /// A descriptor was closed: a new file without any writes disappears with the last one.
  void end();

 private:
  std::string& private_text() CODECFS_REQUIRES(mutex_);
  void applied();

  const Ino ino_;
  const uint64_t max_bytes_;
  Mutex mutex_;
  std::shared_ptr<std::string> text_ CODECFS_GUARDED_BY(mutex_);
  uint64_t open_ CODECFS_GUARDED_BY(mutex_) = 1;  // descriptors
  bool changed_ CODECFS_GUARDED_BY(mutex_) = false;
  bool mapped_ CODECFS_GUARDED_BY(mutex_) = false;  // pages of a mapping are a part of the change
  int applying_ CODECFS_GUARDED_BY(mutex_) = 0;     // changes that were taken
  // Bytes of the change that were written sequentially from the beginning; none: written in another way.
  std::optional<uint64_t> written_ CODECFS_GUARDED_BY(mutex_) = 0;
  bool is_new_ CODECFS_GUARDED_BY(mutex_) = false;
  bool shown_ CODECFS_GUARDED_BY(mutex_) = false;
};

class StagedFiles {
 public:
  /// The staged file of an inode, which starts with `text` if it has no changes that are not applied.
  std::shared_ptr<StagedFile> open(Ino ino, const std::string& text, bool is_new,
                                   uint64_t max_bytes = StagedFile::kMaxText);
  /// Null if the file is not open for writing.
  std::shared_ptr<StagedFile> find(Ino ino);

 private:
  Mutex mutex_{LockRank::staged_files};
  std::map<Ino, std::weak_ptr<StagedFile>> staged_files_ CODECFS_GUARDED_BY(mutex_);
  size_t full_ CODECFS_GUARDED_BY(mutex_) = 1024;  // number of files at which closed ones are removed
};

}  // namespace codecfs::fs
