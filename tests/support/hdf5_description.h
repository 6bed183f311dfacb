#pragma once
// Describes everything that libhdf5 reads in a file as lines of text: objects with their addresses, links, types,
// shapes, fill values, values and attributes. Unchanged parts have the same text before and after a change. The storage
// of data is included only on request.

#include <hdf5_hl.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>

#include "backends/hdf5/library/hdf5_version.h"
#include "support/hdf5_testing.h"

namespace codecfs::hdf5_testing {

class Description {
 public:
  /// With libhdf5's own driver.
  static std::string of(const std::string& path) {
    const Handle access(H5Pcreate(H5P_FILE_ACCESS));
    H5Pset_fapl_sec2(access.get());
    const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
    demand(static_cast<bool>(file), "opening " + path);
    Description description(file.get());
#if H5_VERSION_GE(1, 12, 0)
    const auto visit_all = H5Ovisit3;
#else
    const auto visit_all = H5Ovisit2;
#endif
    demand(visit_all(file.get(), H5_INDEX_NAME, H5_ITER_INC, visit, &description, H5O_INFO_BASIC) >= 0, "the objects");
    return description.text_;
  }

 private:
  explicit Description(hid_t file) : file_(file) {}

  static void demand(bool good, const std::string& what) {
    if (!good) throw std::runtime_error("libhdf5 fails at " + what);
  }

  template <class RawInfo>
  static herr_t visit(hid_t file, const char* name, const RawInfo*, void* to) try {
    auto& self = *static_cast<Description*>(to);
    const Handle object(H5Oopen(file, name, H5P_DEFAULT));
    hdf5::ObjectInfo info;
    demand(object && hdf5::object_info(object.get(), info), name);
    self.text_ += fmt::format("{} {} at {}, {} links, {} attributes", name, static_cast<int>(info.type), info.address,
                              info.references, info.attributes);
    if (info.type == H5O_TYPE_DATASET) self.dataset(object.get());
    self.text_ += '\n';
    hsize_t at = 0;
    const Handle creation(info.type == H5O_TYPE_DATASET ? H5Dget_create_plist(object.get()) : H5I_INVALID_HID);
    unsigned order = 0;
    if (creation) H5Pget_attr_creation_order(creation.get(), &order);
    demand(H5Aiterate2(object.get(), order != 0 ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME, H5_ITER_INC, &at, attribute,
                       &self) >= 0,
           "attributes");
    char comment[100] = {};
    if (H5Oget_comment(object.get(), comment, sizeof comment) > 0) self.text_ += fmt::format("  # {}\n", comment);
    return 0;
  } catch (const std::exception& error) {
    static_cast<Description*>(to)->text_ += fmt::format("{}\n", error.what());
    return -1;
  }

  static herr_t attribute(hid_t object, const char* name, const H5A_info_t*, void* to) try {
    auto& self = *static_cast<Description*>(to);
    const Handle attribute(H5Aopen(object, name, H5P_DEFAULT));
    const Handle type(H5Aget_type(attribute.get()));
    const Handle space(H5Aget_space(attribute.get()));
    std::vector<std::byte> values(elements(space) * H5Tget_size(type.get()));
    demand(H5Aread(attribute.get(), type.get(), values.data()) >= 0, name);
    self.text_ += fmt::format("  {} = ", name);
    self.print(type.get(), values.data(), elements(space));
    self.text_ += '\n';
    H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, values.data());
    return 0;
  } catch (const std::exception& error) {
    static_cast<Description*>(to)->text_ += fmt::format("{}\n", error.what());
    return -1;
  }

  static size_t elements(const Handle& space) {
    return static_cast<size_t>(std::max<hssize_t>(H5Sget_simple_extent_npoints(space.get()), 0));
  }

  void dataset(hid_t dataset) {
    const Handle type(H5Dget_type(dataset));
    const Handle space(H5Dget_space(dataset));
    const Handle creation(H5Dget_create_plist(dataset));
    hsize_t dims[H5S_MAX_RANK];
    hsize_t most[H5S_MAX_RANK];
    const int rank = H5Sget_simple_extent_dims(space.get(), dims, most);
    for (int d = 0; d < rank; ++d) text_ += fmt::format(" {}/{}", dims[d], static_cast<hssize_t>(most[d]));
    size_t size = 0;
    H5LTdtype_to_text(type.get(), nullptr, H5LT_DDL, &size);
    std::string ddl(size, '\0');
    H5LTdtype_to_text(type.get(), ddl.data(), H5LT_DDL, &size);
    text_ += fmt::format(" {} committed {}", ddl.c_str(), H5Tcommitted(type.get()));
    H5D_fill_value_t defined{};
    H5Pfill_value_defined(creation.get(), &defined);
    H5D_fill_time_t when{};
    H5Pget_fill_time(creation.get(), &when);
    text_ += fmt::format(" fill {} {} ", static_cast<int>(defined), static_cast<int>(when));
    if (defined == H5D_FILL_VALUE_USER_DEFINED) {
      std::vector<std::byte> fill(H5Tget_size(type.get()));
      demand(H5Pget_fill_value(creation.get(), type.get(), fill.data()) >= 0, "a fill value");
      print(type.get(), fill.data(), 1);
      const Handle one(H5Screate(H5S_SCALAR));
      H5Dvlen_reclaim(type.get(), one.get(), H5P_DEFAULT, fill.data());
    }
    std::vector<std::byte> values(elements(space) * H5Tget_size(type.get()));
    demand(H5Dread(dataset, type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0, "the values");
    text_ += ": ";
    print(type.get(), values.data(), elements(space));
    H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, values.data());
  }

  void print(hid_t type, const std::byte* from, size_t count) {
    const size_t size = H5Tget_size(type);
    for (size_t i = 0; i < count; ++i, from += size) print_one(type, from, size);
  }

  void print_one(hid_t type, const std::byte* from, size_t size) {
    switch (H5Tget_class(type)) {
      case H5T_VLEN: {
        hvl_t list;
        std::memcpy(&list, from, sizeof list);
        const Handle base(H5Tget_super(type));
        text_ += '[';
        print(base.get(), static_cast<const std::byte*>(list.p), list.len);
        text_ += ']';
        return;
      }
      case H5T_ARRAY: {
        const Handle base(H5Tget_super(type));
        print(base.get(), from, size / H5Tget_size(base.get()));
        return;
      }
      case H5T_COMPOUND:
        for (unsigned m = 0; m < static_cast<unsigned>(H5Tget_nmembers(type)); ++m) {
          const Handle member(H5Tget_member_type(type, m));
          print_one(member.get(), from + H5Tget_member_offset(type, m), H5Tget_size(member.get()));
        }
        return;
      case H5T_REFERENCE: return print_reference(type, from);
      case H5T_STRING:
        if (H5Tis_variable_str(type) > 0) {
          const char* text = nullptr;
          std::memcpy(&text, from, sizeof text);
          text_ += fmt::format("\"{}\"", text == nullptr ? "(null)" : text);
          return;
        }
        [[fallthrough]];
      default:
        for (size_t i = 0; i < size; ++i) text_ += fmt::format("{:02x}", std::to_integer<unsigned>(from[i]));
        text_ += ' ';
    }
  }

  void print_reference(hid_t type, const std::byte* from) {
    const bool region = H5Tequal(type, H5T_STD_REF_DSETREG) > 0;
    const H5R_type_t kind = region ? H5R_DATASET_REGION : H5R_OBJECT;
    const std::vector<std::byte> none(H5Tget_size(type));
    if (std::equal(none.begin(), none.end(), from)) {
      text_ += "nothing ";
      return;
    }
    const Handle object(H5Rdereference2(file_, H5P_DEFAULT, kind, from));
    char name[100] = {};
    demand(object && H5Iget_name(object.get(), name, sizeof name) >= 0, "a reference");
    text_ += fmt::format("-> {} ", name);
    if (!region) return;
    const Handle space(H5Rget_region(file_, kind, from));
    hsize_t start[H5S_MAX_RANK];
    hsize_t end[H5S_MAX_RANK];
    demand(H5Sget_select_bounds(space.get(), start, end) >= 0, "a region");
    for (int d = 0; d < H5Sget_simple_extent_ndims(space.get()); ++d) text_ += fmt::format("{}-{} ", start[d], end[d]);
  }

  const hid_t file_;
  std::string text_;
};

}  // namespace codecfs::hdf5_testing
