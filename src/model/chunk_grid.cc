#include "model/chunk_grid.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace codecfs {
namespace {

constexpr uint64_t kMaxCount = uint64_t{1} << 60;

/// The product; none if it exceeds kMaxCount. A factor of 0 makes it 0, however large the other factors.
std::optional<uint64_t> product(const std::vector<uint64_t>& factors) {
  if (std::ranges::find(factors, 0U) != factors.end()) return 0;
  uint64_t result = 1;
  for (const uint64_t factor : factors)
    if (__builtin_mul_overflow(result, factor, &result) || result > kMaxCount) return std::nullopt;
  return result;
}

}  // namespace

Result<ChunkGrid> ChunkGrid::make(std::vector<uint64_t> shape, std::vector<uint64_t> chunks) {
  if (shape.size() != chunks.size())
    return fail(EINVAL, "a shape of {} dimensions with chunks of {} dimensions", shape.size(), chunks.size());
  if (shape.size() > kMaxRank) return fail(EINVAL, "{} dimensions, more than {}", shape.size(), kMaxRank);
  if (std::ranges::find(chunks, 0U) != chunks.end()) return fail(EINVAL, "chunks of length 0");

  ChunkGrid grid;
  grid.cells_.reserve(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) grid.cells_.push_back(shape[i] / chunks[i] + (shape[i] % chunks[i] != 0));
  const auto count = product(grid.cells_);
  if (!count) return fail(EOVERFLOW, "more chunks than can be counted in 60 bits");
  const auto elements = product(chunks);
  if (!elements) return fail(EOVERFLOW, "chunks of more elements than can be counted in 60 bits");
  grid.count_ = *count;
  grid.elements_per_chunk_ = *elements;
  grid.shape_ = std::move(shape);
  grid.chunks_ = std::move(chunks);
  return grid;
}

void ChunkGrid::coordinates_of(uint64_t number, std::span<uint64_t> coordinates) const {
  for (size_t i = cells_.size(); i-- > 0;) {
    coordinates[i] = number % cells_[i];
    number /= cells_[i];
  }
}

uint64_t ChunkGrid::number_of(std::span<const uint64_t> coordinates) const {
  uint64_t number = 0;
  for (size_t i = 0; i < cells_.size(); ++i) number = number * cells_[i] + coordinates[i];
  return number;
}

std::string ChunkGrid::name_of(uint64_t number, char separator) const {
  if (cells_.empty()) return "0";
  std::array<uint64_t, kMaxRank> coordinates;
  coordinates_of(number, coordinates);
  std::string name;
  char digits[20];
  for (size_t i = 0; i < cells_.size(); ++i) {
    if (i > 0) name += separator;
    name.append(digits, std::to_chars(digits, digits + sizeof digits, coordinates[i]).ptr);
  }
  return name;
}

std::optional<uint64_t> ChunkGrid::number_of(std::string_view name, char separator) const {
  if (cells_.empty()) return name == "0" ? std::optional<uint64_t>(0) : std::nullopt;
  uint64_t number = 0;
  const char* at = name.data();
  const char* const end = at + name.size();
  for (size_t i = 0; i < cells_.size(); ++i) {
    if (i > 0 && (at == end || *at++ != separator)) return std::nullopt;
    if (at == end || *at < '0' || *at > '9' || (*at == '0' && at + 1 != end && at[1] >= '0' && at[1] <= '9'))
      return std::nullopt;
    uint64_t coordinate = 0;
    const auto [next, code] = std::from_chars(at, end, coordinate);
    if (code != std::errc() || coordinate >= cells_[i]) return std::nullopt;
    at = next;
    number = number * cells_[i] + coordinate;
  }
  return at == end ? std::optional(number) : std::nullopt;
}

}  // namespace codecfs
