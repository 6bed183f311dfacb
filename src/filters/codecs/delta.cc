// delta: numcodecs "delta". Stores each element as its difference from the previous one; the first is unchanged.
//
//   first | second - first | ...         {"id": "delta", "dtype": "<i4", "astype": "<i2"}
//
// Decoding sums as numpy's cumsum does: integers wrap; floats are added in the type that holds both dtypes. Differences
// are computed in the decoded type and then converted.

#include "filters/codecs/element_types.h"
#include "filters/codecs/number_types.h"
#include "filters/core/encoded_type.h"
#include "filters/core/filter.h"
#include "model/json.h"

namespace codecfs::filters::codecs::delta {
namespace {

/// The type in which numpy adds elements of type Encoded to a float type Decoded. Half sums are rounded at each step.
template <class Decoded, class Encoded>
using FloatSum = std::conditional_t<std::same_as<Decoded, double> || std::same_as<Encoded, double> ||
                                        (std::integral<Encoded> && sizeof(Encoded) >= 4),
                                    double,
                                    std::conditional_t<std::same_as<Decoded, float> || std::same_as<Encoded, float> ||
                                                           (std::integral<Encoded> && sizeof(Encoded) == 2),
                                                       float, Half>>;

template <class Decoded, class Encoded>
void sum_up(const std::byte* from, std::byte* to, size_t count) {
  if constexpr (std::integral<Decoded>) {
    uint64_t sum = 0;
    convert_each<Decoded, Encoded>(from, to, count, [&](Encoded difference) {
      sum += static_cast<uint64_t>(difference);
      return static_cast<Decoded>(sum);
    });
  } else {
    using Sum = FloatSum<Decoded, Encoded>;
    Sum sum{};
    bool first = true;
    convert_each<Decoded, Encoded>(from, to, count, [&](Encoded difference) {
      const auto next = element_of<Sum>(value_of(difference));
      sum = first ? next : element_of<Sum>(value_of(sum) + value_of(next));
      first = false;
      return element_of<Decoded>(value_of(sum));
    });
  }
}

template <class Decoded, class Encoded>
void take_differences(const std::byte* from, std::byte* to, size_t count) {
  bool first = true;
  Decoded before{};
  convert_each<Encoded, Decoded>(from, to, count, [&](Decoded element) {
    Decoded difference = element;
    if constexpr (std::integral<Decoded>) {
      if (!first) difference = static_cast<Decoded>(static_cast<uint64_t>(element) - static_cast<uint64_t>(before));
    } else {
      if (!first) difference = element_of<Decoded>(value_of(element) - value_of(before));
    }
    before = element;
    first = false;
    return element_of<Encoded>(value_of(difference));
  });
}

template <class Decoded, class Encoded>
constexpr bool kSummable = (std::integral<Decoded> && std::integral<Encoded>) ||
                           (FloatElement<Decoded> && (FloatElement<Encoded> || std::integral<Encoded>));

Result<Coder> make_coder(const StageContext& context) {
  CODECFS_ASSIGN(const ElementTypes types, read_element_types(context.stage.codec));
  auto coder = visit_number_type(types.decoded, [&](auto decoded) -> Result<Coder> {
    return visit_number_type(types.encoded, [&](auto encoded) -> Result<Coder> {
      using Decoded = decltype(decoded);
      using Encoded = decltype(encoded);
      if constexpr (kSummable<Decoded, Encoded>) {
        return make_element_coder(types, sum_up<Decoded, Encoded>, take_differences<Decoded, Encoded>);
      } else {
        return fail(EINVAL, "numpy cannot sum dtype {} up to {}", print_json(print_dtype(types.encoded)),
                    print_json(print_dtype(types.decoded)));
      }
    });
  });
  if (coder) coder->encoded_chunk = retyped(context.chunk, types.encoded);
  return coder;
}

}  // namespace

Filter make_filter() { return {.name = "delta", .codec = "delta", .make_coder = make_coder}; }

}  // namespace codecfs::filters::codecs::delta
