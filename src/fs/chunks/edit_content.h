#pragma once
// The content of one changed chunk: all of its decoded bytes, and the length that its file shows. Not thread-safe.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/buffer.h"
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
  /// Whether the file is shown shorter than its chunk.
  [[nodiscard]] bool is_short() const { return bytes_ != nullptr && size_ != bytes_->size(); }
  struct Size {
    uint64_t bytes = 0;   // of the content
    uint64_t memory = 0;  // that it takes: more for small chunks
  };
  [[nodiscard]] Size size() const;

  /// Whether a change of a part of the chunk is possible: otherwise set_base() must be called first.
  [[nodiscard]] bool has_base() const { return bytes_ != nullptr || base_ != nullptr; }
  /// The chunk as the source has it, or fill. It becomes the content at the first change, and not before.
  void set_base(std::shared_ptr<Buffer> base) {
    if (bytes_ == nullptr) base_ = std::move(base);
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
  /// Shows the file with the length of its chunk again.
  void show_whole();

  /// A chunk that begins with `bytes`; the rest is fill. ENOMEM.
  static Result<Buffer> pad(const Variable& variable, Bytes bytes);
  /// The maximum size of a chunk, in bytes.
  static uint64_t capacity_of(const Variable& variable);

 private:
  Result<> begin(const Variable& variable, bool whole, uint64_t bytes);
  Result<> make_private(uint64_t bytes);
  void put_zeros(uint64_t end);

  std::shared_ptr<Buffer> base_;           // until the first change
  std::shared_ptr<Buffer> bytes_;          // the whole chunk, fill beyond size_; null before the first change
  std::shared_ptr<const Buffer> encoded_;  // the encoded form to be stored unchanged; or null
  uint64_t size_ = 0;                      // of the file
  bool gaps_are_fill_ = false;             // see resize()
};

}  // namespace codecfs::fs
