#pragma once
// The content of one changed chunk: all of its decoded bytes, and the length that its file shows. Not thread-safe.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/buffer.h"
#include "base/byte_set.h"
#include "base/result.h"
#include "model/variable.h"

namespace codecfs::fs {

class EditContent {
 public:
  /// The bytes are immutable: a later change copies them first. Those beyond `size` are not part of the file.
  struct State {
    std::shared_ptr<const Buffer> bytes;
    uint64_t size = 0;
    // with the stored pipeline, if the chunk was written in encoded form
    std::shared_ptr<const Buffer> encoded = nullptr;
  };
  /// None before the first change.
  [[nodiscard]] std::optional<State> state() const;
  /// The state to store: while a replacement is incomplete, the one before it. None if there is none.
  [[nodiscard]] std::optional<State> storable() const;
  /// Whether the file is shown shorter than its chunk.
  [[nodiscard]] bool is_short() const { return bytes_ != nullptr && size_ != bytes_->size(); }
  struct Size {
    uint64_t bytes = 0;   // of the content
    uint64_t memory = 0;  // that it takes: more for small chunks
  };
  [[nodiscard]] Size size() const;

  /// Whether a change of a part of the chunk is possible: otherwise set_base() must be called first.
  [[nodiscard]] bool has_base() const { return bytes_ != nullptr || base_ != nullptr; }
  /// The chunk as the source has it, or fill. It becomes the content at the first change, and not before. `version`:
  /// see ChunkBase.
  void set_base(std::shared_ptr<Buffer> base, std::optional<std::string> version = std::nullopt) {
    if (bytes_ != nullptr) return;
    base_ = std::move(base);
    version_ = std::move(version);
  }

  // Changes. All of them need a base, unless the whole chunk is overwritten and its size is known. ENOMEM: nothing has
  // changed.

  /// Writes within the capacity of the chunk. `mask` selects the bytes to write (copy_masked()); empty: all.
  Result<> write(const Variable& variable, uint64_t offset, Bytes bytes, Bytes mask);
  /// Whether write() needs no base.
  static bool is_whole(const Variable& variable, uint64_t offset, Bytes bytes, Bytes mask);
  /// `change` gets the whole chunk; `whole`: it overwrites all bytes.
  Result<> change(const Variable& variable, bool whole, const std::function<void(MutableBytes)>& change);
  /// Truncates the file, or extends it with zeros. `gaps_are_fill`: a gap before a later write reads as fill instead of
  /// zeros.
  Result<> resize(const Variable& variable, uint64_t size, bool gaps_are_fill);
  /// Makes an empty file of a chunk that has no content yet and is absent in the source. Returns whether it did.
  Result<bool> create(const Variable& variable, bool is_absent, bool gaps_are_fill);
  /// Replaces all. `encoded`: the same bytes, encoded with the stored pipeline; or null.
  void replace(Buffer bytes, std::shared_ptr<const Buffer> encoded);
  /// Truncates the file of an existing chunk, of known size, that a writer is going to write anew. Until the file has
  /// the length of the chunk again the replacement is incomplete, and abandon_replacement() returns to what was before.
  Result<> begin_replacement(const Variable& variable);
  [[nodiscard]] bool is_replacing() const { return before_.has_value(); }
  /// Whether bytes were written, but fewer than the chunk has.
  [[nodiscard]] bool is_incomplete() const { return is_replacing() && size_ > 0; }
  /// Returns false if the chunk had no content before: then this content must be dropped.
  bool abandon_replacement();
  /// The content stays, whatever its length.
  void accept_replacement() { before_.reset(); }
  /// The pipeline has changed: the bytes must be encoded to be stored.
  void drop_encoded() {
    encoded_.reset();
    if (before_) before_->encoded.reset();
  }
  /// Notes from now on which bytes are written. The fill that a new chunk begins with does not count as written.
  void note_written_bytes() { notes_written_ = true; }
  /// The bytes that were written since the last call. Empty if they are not noted. std::bad_alloc: then the next call
  /// returns them.
  ByteSet take_written();
  /// What take_written() returned could not be stored, so it returns that again. Must be called before its next call.
  void give_back_written(ByteSet written) noexcept { given_back_ = std::move(written); }
  /// Whether all bytes have been replaced, or the chunk was created, since this content exists.
  [[nodiscard]] bool is_own() const { return is_own_; }
  /// The version of the chunk of which the bytes are that were not written; none: not known.
  [[nodiscard]] const std::optional<std::string>& version() const { return version_; }
  void set_version(std::optional<std::string> version) { version_ = std::move(version); }
  /// Shows the file with the length of its chunk again.
  void show_whole();

  /// A chunk that begins with `bytes`; the rest is fill. ENOMEM.
  static Result<Buffer> pad(const Variable& variable, Bytes bytes);
  /// The maximum size of a chunk, in bytes.
  static uint64_t capacity_of(const Variable& variable);

 private:
  /// What a replacement replaces. Without bytes: the chunk as the source has it.
  struct Before {
    std::shared_ptr<Buffer> bytes;
    std::shared_ptr<const Buffer> encoded;
    uint64_t size = 0;
    bool is_own = false;
    ByteSet written;
    std::optional<std::string> version;
  };

  /// What a change begins with. It needs no more memory then.
  struct Prepared {
    std::shared_ptr<Buffer> bytes;
    uint64_t size = 0;
    bool whole = false;
  };

  void note_size(uint64_t size);
  Result<Prepared> prepare(const Variable& variable, bool whole, uint64_t bytes);
  void adopt(Prepared prepared) noexcept;
  void put_zeros(uint64_t end);
  Result<> note_bytes_of(Prepared prepared, const std::function<void(MutableBytes)>& change);
  template <class Note>
  Result<> note_written(Note note);
  Result<> resize_prepared(const Variable& variable, Prepared prepared, uint64_t size, bool gaps_are_fill, bool notes);

  std::shared_ptr<Buffer> base_;           // until the first change
  std::shared_ptr<Buffer> bytes_;          // the whole chunk, fill beyond size_; null before the first change
  std::shared_ptr<const Buffer> encoded_;  // the encoded form to be stored unchanged; or null
  uint64_t size_ = 0;                      // of the file
  std::optional<Before> before_;           // while a replacement is not complete
  bool gaps_are_fill_ = false;             // see resize()
  bool is_own_ = false;
  bool notes_written_ = false;
  ByteSet written_;
  ByteSet given_back_;
  std::optional<std::string> version_;
};

}  // namespace codecfs::fs
