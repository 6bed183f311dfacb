#pragma once
// Changes of attributes: JSON becomes HDF5 values.
//
// A value that is shown already is left alone. One that changes keeps the type that it has in the file where it fits
// exactly; else it gets a new one: text as netCDF-C writes NC_CHAR, in other files of variable length; integers of 64
// bits, floats of 64 bits; booleans as h5py has them (in netCDF files, which have none, one byte); lists of these with
// as many dimensions as they are deep; null a null dataspace (h5py.Empty).
//
// libhdf5 cannot take a change back, so everything is converted and checked before the first attribute changes.
//
// All calls under a LibraryLock.

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/metadata/attribute_values.h"
#include "base/result.h"
#include "model/variable.h"

namespace codecfs::hdf5 {

class AttributeChange {
 public:
  /// Of a group or dataset; of one that is still to be made where `holder` is H5I_INVALID_HID. `object` names it in
  /// messages. ENODATA: one to be removed is not there. EPERM: one that libhdf5 and netCDF keep for themselves, or that
  /// has no JSON form. EINVAL: a value that HDF5 has no attribute for. EFBIG: one that is too large for the object.
  static Result<AttributeChange> prepare(hid_t holder, const AttributeRules& rules, std::string_view object,
                                         std::span<const Attribute> set, std::span<const std::string> remove);
  /// Also a single value of this type, as bytes that are in memory as in the file (of text: a char*).
  Result<> add_element(std::string_view name, hid_t type, std::vector<std::byte> element, std::string text = {});

  [[nodiscard]] bool empty() const { return values_.empty() && removed_.empty(); }
  /// About as many bytes as it writes.
  [[nodiscard]] uint64_t bytes() const;
  /// EIO where libhdf5 fails, in the middle.
  Result<> apply(hid_t holder) const;

 private:
  struct Value {
    std::string name;
    Handle type;    // in the file
    Handle memory;  // of `bytes`
    Handle space;
    std::vector<std::byte> bytes;
    std::deque<std::string> texts;  // that pointers among the bytes point to
    bool in_place = false;          // the attribute has this type and shape already
    bool replaces = false;          // there is one of this name
  };

  Result<> set(const Attribute& attribute);
  Result<> remove(const std::string& name);
  Result<> check_size(const Value& value) const;

  hid_t holder_ = H5I_INVALID_HID;
  AttributeRules rules_;
  std::string object_;
  bool old_header_ = false;         // which cannot hold large attributes
  std::vector<std::string> names_;  // of the attributes that are there, as HDF5 has them
  std::vector<Value> values_;
  std::vector<std::string> removed_;

  friend class ValueBuilder;
};

}  // namespace codecfs::hdf5
