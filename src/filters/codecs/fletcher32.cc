// fletcher32: HDF5 filter 3, numcodecs "fletcher32". A checksum behind the data, over big-endian 16-bit words (an odd
// last byte is the high byte of one more word), both sums modulo 65535 from 0 on.
//
//   data | LE32 of sum2 << 16 | sum1                                      no parameters
//
// HDF5 before 1.6.3 stored the bytes of both halves swapped on little-endian machines; that form is taken as well.

#include <array>
#include <cstring>

#include "base/endian.h"
#include "filters/core/filter.h"
#include "filters/core/parameter_limits.h"
#include "model/json.h"

namespace codecfs::filters::codecs {
namespace {

using Lanes = uint32_t __attribute__((vector_size(32)));
constexpr size_t kLanes = 8;
constexpr size_t kWords = 2 * kLanes;  // 16-bit words in one step
constexpr size_t kSteps = 256;         // until the lanes are emptied: 65535 * (1 + ... + 256) < 2^32

/// 1..65535 for what is not 0, as repeated end-around carries give it.
uint32_t fold(uint64_t sum) {
  if (sum == 0) return 0;
  const uint64_t rest = sum % 65535;
  return static_cast<uint32_t>(rest == 0 ? 65535 : rest);
}

uint32_t swap_halves(uint32_t value) { return (value & 0x00ff00ff) << 8 | (value & 0xff00ff00) >> 8; }

/// The sums of the words as they lie (first word sum1, then sum2), that is, of little-endian words. As 256 is a
/// rotation by one byte modulo 65535, the sums of big-endian words are the same with their bytes swapped.
///
/// In a block of N words, word i counts 1 in sum1 and N - i in sum2. The words go to kWords lanes; a lane that adds its
/// running sum to a second one at each step gets, in units of kWords, the weight of the step; what is too much of it is
/// taken off by the lane's own place.
uint32_t fletcher32_of(Bytes bytes) {
  uint64_t sum1 = 0;
  uint64_t sum2 = 0;
  size_t words = bytes.size() / 2;
  const std::byte* at = bytes.data();
  while (words >= kWords) {
    const size_t steps = std::min(kSteps, words / kWords);
    Lanes even1{}, even2{}, odd1{}, odd2{};
    for (size_t step = 0; step < steps; ++step, at += kWords * 2) {
      Lanes pair;
      std::memcpy(&pair, at, sizeof pair);
      if constexpr (std::endian::native == std::endian::big) pair = (pair & 0x00ff00ff) << 8 | (pair >> 8 & 0x00ff00ff);
      constexpr bool kLittle = std::endian::native == std::endian::little;
      even1 += kLittle ? pair & 0xffff : pair >> 16;
      odd1 += kLittle ? pair >> 16 : pair & 0xffff;
      even2 += even1;
      odd2 += odd1;
    }
    uint64_t block1 = 0;
    uint64_t block2 = 0;
    uint64_t excess = 0;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      block1 += uint64_t{even1[lane]} + odd1[lane];
      block2 += uint64_t{even2[lane]} + odd2[lane];
      excess += even1[lane] * uint64_t{2 * lane} + odd1[lane] * uint64_t{2 * lane + 1};
    }
    sum2 = fold(sum2 + sum1 * (steps * kWords) + block2 * kWords - excess);
    sum1 = fold(sum1 + block1);
    words -= steps * kWords;
  }
  for (; words > 0; --words, at += 2) {
    sum1 += load_le<uint16_t>(at);
    sum2 += sum1;
  }
  if (bytes.size() % 2 != 0) {
    sum1 += static_cast<uint8_t>(*at);  // the high byte of a big-endian word: the low one of a little-endian word
    sum2 += sum1;
  }
  return swap_halves(fold(sum2) << 16 | fold(sum1));
}

Result<Buffer> verify(Buffer in) {
  if (in.size() < 4) return fail(EIO, "{} bytes have no room for the checksum", in.size());
  const size_t size = in.size() - 4;
  const auto stored = load_le<uint32_t>(in.data() + size);
  const uint32_t computed = fletcher32_of(in.bytes().first(size));
  if (stored != computed && stored != swap_halves(computed))
    return fail(EIO, "the checksum of the data is {:08x}, not {:08x} as stored: the chunk is damaged", computed,
                stored);
  in.truncate(size);
  return in;
}

Result<Buffer> add_checksum(Bytes in) {
  CODECFS_ASSIGN(Buffer out, Buffer::allocate(in.size() + 4));
  if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());
  store_le(out.data() + in.size(), fletcher32_of(in));
  return out;
}

}  // namespace

Filter fletcher32() {
  return {
      .id = 3,
      .name = "fletcher32",
      .codec = "fletcher32",
      .parameters_of = [](const Json&, uint64_t) -> Result<std::vector<uint32_t>> { return std::vector<uint32_t>{}; },
      .codec_of = [](std::span<const uint32_t>) -> Json { return {{"id", "fletcher32"}}; },
      .check_new = [](const FilterStage& stage, uint64_t) { return at_most(stage, 0, ""); },
      .make_coder = [](const StageContext&) -> Result<Coder> {
        return Coder{.decode = [](Buffer in, const SizeBound&) { return verify(std::move(in)); },
                     .encode = add_checksum,
                     .encoded = adds_bytes(4)};
      },
  };
}

}  // namespace codecfs::filters::codecs
