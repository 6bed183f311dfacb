#include "filters/core/common_form.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/endian.h"

namespace codecfs::filters {
namespace {

constexpr uint32_t kShuffle = 2;
constexpr uint32_t kFletcher32 = 3;
constexpr uint32_t kBzip2 = 307;
constexpr uint32_t kBlosc = 32001;
constexpr uint32_t kZstd = 32015;
constexpr uint64_t kFletcherBytes = 4;

bool has_several_forms(const FilterStage& stage) {
  return stage.id == kBzip2 || stage.id == kBlosc || stage.id == kZstd;
}

bool is_sized_zstd(Bytes head, std::optional<uint64_t> decoded) {
  const unsigned long long size = ZSTD_getFrameContentSize(head.data(), head.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size == 0) return false;
  // Of several frames, the first one has less than all.
  return !decoded || size == *decoded;
}

// version | version of the compressor | flags | bytes of an element | LE32 decoded bytes | LE32 of a block | LE32 all
bool is_whole_blosc(Bytes head, uint64_t size, std::optional<uint64_t> decoded) {
  constexpr auto kVersions = std::array{std::byte{1}, std::byte{2}};
  if (head.size() < 16 || std::ranges::find(kVersions, head[0]) == kVersions.end()) return false;
  return load_le<uint32_t>(head.data() + 12) == size && (!decoded || load_le<uint32_t>(head.data() + 4) == *decoded);
}

// A stream begins with "BZh", its level, and the mark of a block or of the end.
bool is_one_bzip2(Bytes bytes) {
  constexpr std::array<std::string_view, 2> kMarks = {"\x31\x41\x59\x26\x53\x59", "\x17\x72\x45\x38\x50\x90"};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (size_t at = text.find("BZh", 1); at != text.npos; at = text.find("BZh", at + 1)) {
    const std::string_view rest = text.substr(at + 3);
    if (rest.empty() || rest[0] < '1' || rest[0] > '9') continue;
    if (std::ranges::any_of(kMarks, [&](std::string_view mark) { return rest.substr(1).starts_with(mark); }))
      return false;
  }
  return true;
}

}  // namespace

bool may_lack_common_form(std::span<const FilterStage> chain) { return std::ranges::any_of(chain, has_several_forms); }

bool has_common_form(std::span<const FilterStage> chain, const ChunkShape& chunk, Bytes head, uint64_t size) {
  while (!chain.empty() && chain.back().id == kFletcher32) {  // follows the stream
    if (size < kFletcherBytes) return false;
    size -= kFletcherBytes;
    head = head.first(std::min<uint64_t>(head.size(), size));
    chain = chain.first(chain.size() - 1);
  }
  if (!may_lack_common_form(chain)) return true;
  const FilterStage& outer = chain.back();
  const auto inner = chain.first(chain.size() - 1);
  if (!has_several_forms(outer) || may_lack_common_form(inner)) return false;
  std::optional<uint64_t> decoded = chunk.bytes;
  for (const FilterStage& stage : inner) {
    if (stage.id == kFletcher32 && decoded) *decoded += kFletcherBytes;
    if (stage.id != kFletcher32 && stage.id != kShuffle) decoded.reset();
  }
  switch (outer.id) {
    case kZstd: return is_sized_zstd(head, decoded);
    case kBlosc: return is_whole_blosc(head, size, decoded);
    default: return is_one_bzip2(head);
  }
}

}  // namespace codecfs::filters
