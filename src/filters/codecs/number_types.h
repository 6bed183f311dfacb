#pragma once
// Maps a numpy number type to the C++ type of its elements, for codecs that compute (delta, fixedscaleoffset, astype).

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/buffer.h"
#include "base/result.h"
#include "model/data_type.h"
#include "model/json.h"

namespace codecfs::filters {

/// IEEE 754 binary16, as raw bits.
struct Half {
  uint16_t bits = 0;
};
double half_to_double(Half value);  // exact
Half double_to_half(double value);  // to nearest, ties to even

/// A numpy bool: one byte, true if nonzero.
struct Bool {
  uint8_t value = 0;
};

template <class T>
concept FloatElement = std::floating_point<T> || std::same_as<T, Half>;
template <class T>
concept IntegerElement = std::integral<T>;

/// The element as a C++ number: integers unchanged, floats as float or double, Half as double, Bool as 0 or 1.
template <class T>
auto value_of(T element) {
  if constexpr (std::same_as<T, Half>)
    return half_to_double(element);
  else if constexpr (std::same_as<T, Bool>)
    return static_cast<uint8_t>(element.value != 0);
  else
    return element;
}

/// Converts a number to an element of type To. Integers wrap; floats are truncated towards 0. A float out of the range
/// of an integer type converts as on x86, and so as numpy does there; numpy itself leaves the result undefined.
template <class To, class Number>
To element_of(Number number) {
  if constexpr (std::same_as<To, Bool>) {
    return Bool{static_cast<uint8_t>(number != 0)};
  } else if constexpr (std::same_as<To, Half>) {
    return double_to_half(static_cast<double>(number));
  } else if constexpr (std::integral<To> && std::floating_point<Number>) {
    constexpr double kLow = std::is_signed_v<To> ? -0x1p63 : -0x1p63;
    constexpr double kHigh = std::is_same_v<To, uint64_t> ? 0x1p64 : 0x1p63;
    const auto wide = static_cast<double>(number);
    if constexpr (std::is_same_v<To, uint64_t>) {
      if (wide >= 0x1p63 && wide < kHigh) return static_cast<uint64_t>(wide);
    }
    if (wide >= kLow && wide < 0x1p63) {
      const auto integer = static_cast<int64_t>(wide);
      if constexpr (std::is_same_v<To, int32_t>) {
        if (integer < INT32_MIN || integer > INT32_MAX) return INT32_MIN;
      }
      return static_cast<To>(integer);
    }
    if constexpr (std::is_same_v<To, int32_t>) return INT32_MIN;
    return static_cast<To>(INT64_MIN);
  } else {
    return static_cast<To>(number);
  }
}

template <class T>
T load_element(const std::byte* from) {
  T element;
  std::memcpy(&element, from, sizeof element);
  return element;
}

template <class T>
void store_element(std::byte* to, T element) {
  std::memcpy(to, &element, sizeof element);
}

/// Swaps the bytes of each element in place; the element size is 1, 2, 4 or 8 and must divide the length.
void swap_elements(MutableBytes bytes, size_t size);

/// Whether the byte order of the elements is not the native one.
bool is_foreign_order(const DataType& type);

/// Calls `visit(T{})` with T the element type: Bool, intN_t, uintN_t, Half, float or double. EINVAL for other types.
template <class Visit>
auto visit_number_type(const DataType& type, Visit&& visit) -> decltype(visit(uint8_t{})) {
  switch (type.kind) {
    case TypeKind::boolean: return visit(Bool{});
    case TypeKind::signed_int:
      switch (type.size) {
        case 1: return visit(int8_t{});
        case 2: return visit(int16_t{});
        case 4: return visit(int32_t{});
        case 8: return visit(int64_t{});
        default: break;
      }
      break;
    case TypeKind::unsigned_int:
      switch (type.size) {
        case 1: return visit(uint8_t{});
        case 2: return visit(uint16_t{});
        case 4: return visit(uint32_t{});
        case 8: return visit(uint64_t{});
        default: break;
      }
      break;
    case TypeKind::floating:
      switch (type.size) {
        case 2: return visit(Half{});
        case 4: return visit(float{});
        case 8: return visit(double{});
        default: break;
      }
      break;
    default: break;
  }
  return fail(EINVAL, "does not work on elements of dtype {}", print_json(print_dtype(type)));
}

}  // namespace codecfs::filters
