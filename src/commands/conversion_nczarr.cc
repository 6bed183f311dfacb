// The part of a conversion that makes netCDF-C's form of Zarr. See conversion.cc for the rest.

#include <algorithm>
#include <span>

#include "commands/conversion.h"
#include "commands/elements.h"
#include "commands/workers.h"
#include "model/json.h"
#include "model/limits.h"

namespace codecfs::commands {
namespace {

std::span<const std::byte> text_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

/// The decoded texts of a chunk, also of one that is not stored.
Result<Elements> texts_of(Source& source, const NczarrLayout::Array& array, uint64_t number) {
  const Variable& variable = *array.variable;
  auto chunk = source.read_chunk(array.object, number);
  if (!chunk && chunk.error().code == ENOENT) chunk = make_fill_chunk(variable);
  if (!chunk) return std::unexpected(chunk.error());
  return elements_of_chunk(variable, std::move(*chunk), variable.grid.elements_per_chunk());
}

}  // namespace

Result<> Conversion::copy_nczarr_array(TreeFiles::Ino from, const Directory& to, const std::string& path) {
  if (nczarr_->variable(path) == nullptr) return blame(Blame::source, Error{EIO, "it cannot be read"});
  const NczarrLayout::Array& array = nczarr_->array(path);
  std::optional<uint64_t> length;
  if (array.variable->type.kind == TypeKind::object) {
    const Result<uint64_t> longest = longest_text(array);
    if (!longest && longest.error().code == EINVAL) return blame(Blame::target, longest.error());
    if (!longest) return blame(Blame::source, longest.error());
    length = *longest;
    text_lengths_[path] = *longest;
  }
  const Result<TreeFiles::Ino> file = from_.find(from, ".zarray");
  if (!file) return blame(Blame::source, file.error());
  std::string zarray;
  const Result<> read = from_.read(*file, [&](Bytes content) -> Result<> {
    zarray.assign(reinterpret_cast<const char*>(content.data()), content.size());
    return {};
  });
  if (!read) return blame(Blame::source, read.error());
  const auto files = nczarr_->files_of(path, zarray, length);
  if (!files) return blame(Blame::target, files.error());
  CODECFS_TRY(to_.write(to, ".zarray", text_bytes(files->zarray)));
  return to_.write(to, ".zattrs", text_bytes(files->zattrs));
}

/// Called when all its members are made.
Result<> Conversion::write_nczarr_group(const Directory& to, const std::string& path) {
  const auto zattrs = nczarr_->zattrs_of(path, made_[path].arrays, made_[path].groups);
  if (!zattrs) return blame(Blame::source, zattrs.error());
  return to_.write(to, ".zattrs", text_bytes(*zattrs));
}

/// Bytes of the longest text of an array, at least 1. EINVAL if texts of this length are too large, or cannot be
/// stored.
Result<uint64_t> Conversion::longest_text(const NczarrLayout::Array& array) {
  Source& source = from_.filesystem().context().dataset.source();
  const Variable& variable = *array.variable;
  std::atomic<uint64_t> longest = std::max<uint64_t>(variable.fill.size(), 5) - 4;
  std::atomic<bool> has_zeros = false;
  constexpr size_t kAtOnce = 1024;
  for (uint64_t next = 0;;) {
    CODECFS_ASSIGN(const auto numbers, source.stored_chunks(array.object, next, kAtOnce));
    if (numbers.empty()) break;
    next = numbers.back() + 1;
    CODECFS_TRY(in_parallel(numbers.size(), [&](uint64_t i) -> Result<> {
      if (interrupted) return fail(ECANCELED, "interrupted");
      CODECFS_ASSIGN(const Elements texts, texts_of(source, array, numbers[i]));
      for (const Bytes text : texts.items) {
        uint64_t known = longest;
        while (known < text.size() && !longest.compare_exchange_weak(known, text.size())) {
        }
        if (std::ranges::find(text, std::byte{0}) != text.end()) has_zeros = true;
      }
      return {};
    }));
  }
  if (has_zeros) return fail(EINVAL, "a text of it has a zero byte, at which netCDF would end it");
  if (longest > max_chunk_bytes() / std::max<uint64_t>(variable.grid.elements_per_chunk(), 1))
    return fail(EINVAL,
                "NCZarr stores {} bytes for each text, as many as the longest has, and a chunk would have more "
                "than {}",
                longest.load(), max_chunk_text());
  return longest.load();
}

Result<> Conversion::copy_texts(const Chunk& chunk) {
  const Variable& variable = *chunk.texts->variable;
  const auto number = ChunkKeys{.has_prefix = false, .separator = '.'}.number_of(variable.grid, chunk.name);
  if (!number) return fail(EIO, "is no chunk of the array");
  CODECFS_ASSIGN(const Elements texts, texts_of(from_.filesystem().context().dataset.source(), *chunk.texts, *number));
  CODECFS_ASSIGN(Buffer bytes, Buffer::allocate(texts.items.size() * chunk.length));
  std::ranges::fill(bytes.mutable_bytes(), std::byte{0});
  for (size_t i = 0; i < texts.items.size(); ++i)
    std::ranges::copy(texts.items[i].first(std::min<size_t>(texts.items[i].size(), chunk.length)),
                      bytes.mutable_bytes().begin() + static_cast<ptrdiff_t>(i * chunk.length));
  bytes_ += bytes.size();
  return to_.write(chunk.to, chunk.name, bytes.bytes());
}

}  // namespace codecfs::commands
