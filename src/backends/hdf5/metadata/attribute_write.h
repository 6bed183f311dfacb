#pragma once
// Changes attributes: converts JSON to HDF5 values.
//
// Values may be as model/float_attributes.h tells them: a text "NaN" is a number in an attribute that is listed in
// `set`, or that is a number in the file.
//
// An attribute with an unchanged value is not written. A changed one keeps its type in the file if the new value fits
// exactly. Otherwise, and for new attributes, the type is the one that is given with the value (Attribute::type); if
// none is given or the value does not fit, it depends on the value: text is written as netCDF-C writes
// NC_CHAR, in files that are not netCDF as variable-length strings; integers and floats have 64 bits; booleans are
// h5py's (in netCDF files, which have none, one byte); nested lists become arrays of the same depth; null becomes a
// null dataspace (h5py.Empty). Objects, and lists that no HDF5 type represents, become JSON text, and kJsonAttributes
// says of which attributes.
//
// libhdf5 cannot undo a change, so all values are converted and checked before the first attribute is changed.
//
// All calls under a LibraryLock.

#include <deque>
#include <set>
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
  /// Prepares changes for a group or dataset; H5I_INVALID_HID as `holder` means a new object. `object` is its name in
  /// messages. ENODATA: an attribute to remove does not exist. EPERM: libhdf5 or netCDF reserves the name, or the
  /// existing attribute has no JSON form. EINVAL: no HDF5 type can represent the value. EFBIG: it is too large for the
  /// object.
  static Result<AttributeChange> prepare(hid_t holder, const AttributeRules& rules, std::string_view object,
                                         std::span<const Attribute> set, std::span<const std::string> remove);
  /// Adds an attribute to what prepare() was given: a single element of this type, whose bytes are equal in memory and
  /// in the file (for text: a char*).
  Result<> add_element(std::string_view name, hid_t type, std::vector<std::byte> element, std::string text = {});

  [[nodiscard]] bool empty() const { return values_.empty() && removed_.empty(); }
  /// Estimate of the bytes that it will write.
  [[nodiscard]] uint64_t bytes() const;
  /// EIO if libhdf5 fails; some attributes may have been changed by then.
  Result<> apply(hid_t holder) const;

 private:
  struct Value {
    std::string name;
    Handle type;    // in the file
    Handle memory;  // of `bytes`
    Handle space;
    std::vector<std::byte> bytes;
    std::deque<std::string> texts;  // the text that pointers in the bytes refer to
    bool in_place = false;          // the attribute already has this type and shape
    bool replaces = false;          // an attribute of this name exists
    bool is_json = false;           // the value is JSON text
  };

  Result<> set(Attribute attribute, const Json& stored_type);
  Result<> remove(const std::string& name);
  void take_json_names(const Json& list);
  Result<> list_json(const std::set<std::string>& before);
  Result<> check_size(const Value& value) const;

  hid_t holder_ = H5I_INVALID_HID;
  AttributeRules rules_;
  std::string object_;
  bool old_header_ = false;         // the object header's version cannot store large attributes
  std::vector<std::string> names_;  // HDF5 names of the existing attributes
  std::set<std::string> as_json_;   // the names that kJsonAttributes will list
  std::vector<Value> values_;
  std::vector<std::string> removed_;

  friend class ValueBuilder;
};

}  // namespace codecfs::hdf5
