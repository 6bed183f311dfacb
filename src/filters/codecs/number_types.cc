// Half floats and byte order of elements.

#include "filters/codecs/number_types.h"

#include <algorithm>

#include "base/endian.h"

namespace codecfs::filters {
namespace {

template <class T>
void swap_all(MutableBytes bytes) {
  for (size_t i = 0; i < bytes.size(); i += sizeof(T))
    store_element<T>(bytes.data() + i, byte_swap(load_element<T>(bytes.data() + i)));
}

}  // namespace

double half_to_double(Half value) {
  const int exponent = value.bits >> 10 & 0x1f;
  const int mantissa = value.bits & 0x3ff;
  double magnitude = 0;
  if (exponent == 0x1f) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else {
    magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
  }
  return (value.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

Half double_to_half(double value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return {static_cast<uint16_t>(sign | 0x7e00)};
  const double magnitude = std::fabs(value);
  if (magnitude >= 65520) return {static_cast<uint16_t>(sign | 0x7c00)};  // rounds to infinity
  if (magnitude == 0) return {sign};
  int exponent = 0;
  std::frexp(magnitude, &exponent);                                   // magnitude = [0.5, 1) * 2^exponent
  const int unit = std::max(exponent - 11, -24);                      // exponent of the last place
  const double units = std::nearbyint(std::ldexp(magnitude, -unit));  // at most 2048
  // Normal numbers have the hidden bit (1024) in `units`; if rounding carried to 2048, the sum below carries too.
  const auto rounded = static_cast<uint32_t>(units);
  return {static_cast<uint16_t>(sign | ((static_cast<uint32_t>(unit + 24) << 10) + rounded))};
}

void swap_elements(MutableBytes bytes, size_t size) {
  switch (size) {
    case 2: return swap_all<uint16_t>(bytes);
    case 4: return swap_all<uint32_t>(bytes);
    case 8: return swap_all<uint64_t>(bytes);
    default: return;
  }
}

bool is_foreign_order(const DataType& type) {
  return type.order == (std::endian::native == std::endian::little ? ByteOrder::big : ByteOrder::little);
}

}  // namespace codecfs::filters
