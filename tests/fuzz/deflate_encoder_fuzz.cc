// zlib must inflate deflated data to the original. The input describes noise, runs and repetitions, for which the
// encoder searches in slices of several KiB.

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "filters/deflate/deflate_stream.h"
#include "require.h"

namespace {

using namespace codecfs;
using filters::codecs::Wrapping;

constexpr size_t kLargest = size_t{512} << 10;

// Four bytes per step: kind, a parameter, and the number of bytes.
std::vector<uint8_t> cook(const uint8_t* recipe, size_t size) {
  std::vector<uint8_t> bytes;
  std::minstd_rand random(1);
  for (; size >= 4 && bytes.size() < kLargest; recipe += 4, size -= 4) {
    const uint8_t parameter = recipe[1];
    const size_t count = recipe[2] + (size_t{recipe[3]} << 8);
    switch (recipe[0] % 6) {
      case 0:  // noise with this number of values
        for (size_t i = 0; i < count; ++i) bytes.push_back(static_cast<uint8_t>((random() >> 8) % (parameter + 1U)));
        break;
      case 1:  // normally distributed values
        for (size_t i = 0; i < count; ++i) {
          unsigned sum = 0;
          for (int k = 0; k < 4; ++k) sum += (random() >> 8) % (parameter / 4 + 1U);
          bytes.push_back(static_cast<uint8_t>(sum));
        }
        break;
      case 2: bytes.insert(bytes.end(), count, parameter); break;
      case 3:  // repeats earlier data at this distance
        for (size_t i = 0; i < count; ++i) {
          const size_t back = (size_t{parameter} + 1) * 131;
          bytes.push_back(bytes.size() >= back ? bytes[bytes.size() - back] : static_cast<uint8_t>(i));
        }
        break;
      case 4:  // noise with runs
        for (size_t i = 0; i < count;) {
          const size_t run = (random() >> 8) % 3 == 0 ? (random() >> 8) % (2U * parameter + 1) : 1;
          bytes.insert(bytes.end(), run, static_cast<uint8_t>(random() >> 8));
          i += std::max<size_t>(run, 1);
        }
        break;
      default:  // a ramp
        for (size_t i = 0; i < count; ++i) bytes.push_back(static_cast<uint8_t>(i / (parameter + 1U)));
    }
  }
  bytes.insert(bytes.end(), recipe, recipe + size);
  if (bytes.size() > kLargest) bytes.resize(kLargest);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool is_gzip = (data[0] & 1) != 0;
  const int64_t level = (data[0] >> 1) % 10;
  const std::vector<uint8_t> bytes = cook(data + 1, size - 1);
  const auto encoded =
      filters::codecs::deflate_whole(std::as_bytes(std::span(bytes)), is_gzip ? Wrapping::gzip : Wrapping::zlib, level);
  require(encoded.has_value(), "everything can be deflated");
  std::vector<uint8_t> back(bytes.size() + 1);
  z_stream stream{};
  require(inflateInit2(&stream, is_gzip ? 15 + 16 : 15) == Z_OK, "zlib");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(encoded->data()));
  stream.avail_in = static_cast<uInt>(encoded->size());
  stream.next_out = back.data();
  stream.avail_out = static_cast<uInt>(back.size());
  require(inflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib inflates it");
  require(stream.avail_in == 0, "to its end");
  back.resize(stream.total_out);
  inflateEnd(&stream);
  require(back == bytes, "to the same bytes");
  return 0;
}
