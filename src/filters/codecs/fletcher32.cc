// fletcher32: HDF5 filter 3, numcodecs "fletcher32". A checksum after the data, over big-endian 16-bit words (an odd
// last byte is the high byte of one more word). Both sums start at 0 and are modulo 65535.
//
//   data | LE32 of sum2 << 16 | sum1                                      no parameters
//
// HDF5 before 1.6.3 swapped the bytes of both halves on little-endian machines; the decoder accepts that form too.

#include <array>
#include <cstring>

#include "base/endian.h"
#include "filters/core/filter.h"
#include "filters/core/parameter_limits.h"
#include "model/json.h"

namespace codecfs::filters::codecs::fletcher32 {
namespace {

using Lanes = uint32_t __attribute__((vector_size(32)));
constexpr size_t kLanes = 8;
constexpr size_t kWords = 2 * kLanes;  // 16-bit words in one step
constexpr size_t kSteps = 256;         // number of steps before the lanes are reduced: 65535 * (1 + ... + 256) < 2^32

/// Reduces modulo 65535; a nonzero sum gives 1..65535, as repeated end-around carries do.
uint32_t fold(uint64_t sum) {
  if (sum == 0) return 0;
  const uint64_t rest = sum % 65535;
  return static_cast<uint32_t>(rest == 0 ? 65535 : rest);
}

uint32_t swap_halves(uint32_t value) { return (value & 0x00ff00ff) << 8 | (value & 0xff00ff00) >> 8; }

/// Sums little-endian words (sum1 in the first result, sum2 in the second). As 256 is a rotation by one byte modulo
/// 65535, the sums of big-endian words are these with their bytes swapped.
///
/// In a block of N words, word i counts once in sum1 and N - i times in sum2. The words are distributed over kWords
/// lanes. A lane adds its running sum to a second sum at each step, which weighs its words by steps, that is, in units
/// of kWords; the excess is subtracted according to the lane's index.
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

Filter make_filter() {
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

}  // namespace codecfs::filters::codecs::fletcher32
