#pragma once
// Enumerations that libhdf5 reads from a file. A damaged file has any number, which a variable of the enumeration must
// not hold.

#include <type_traits>

namespace codecfs::hdf5 {

template <class Enum>
class StoredEnum {
 public:
  /// For a function of libhdf5 to write to.
  [[nodiscard]] Enum* place() { return reinterpret_cast<Enum*>(&number_); }
  [[nodiscard]] bool operator==(Enum value) const {
    return number_ == static_cast<std::underlying_type_t<Enum>>(value);
  }

 private:
  std::underlying_type_t<Enum> number_{};
};

}  // namespace codecfs::hdf5
