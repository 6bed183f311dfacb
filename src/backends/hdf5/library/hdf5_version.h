#pragma once
// Hides all differences between the supported versions of libhdf5 (1.10.3 and later). The rest of the backend
// identifies objects by their address and does not use the API that 1.12 renamed.

#include <hdf5.h>
#if H5_VERSION_GE(1, 14, 0)
#include <H5FDdevelop.h>
#endif

#include <cstddef>
#include <cstdint>
#include <string>

namespace codecfs::hdf5 {

/// The kind of an object. `references` is the number of hard links to it.
struct ObjectInfo {
  H5O_type_t type = H5O_TYPE_UNKNOWN;
  uint64_t address = 0;
  uint64_t references = 0;
  uint64_t attributes = 0;  // kUnknownAttributes: damaged, so that libhdf5 cannot count them
};
inline constexpr uint64_t kUnknownAttributes = UINT64_MAX;

// The minor error code for an identifier (hid_t) that libhdf5 does not know.
#ifdef H5E_BADID
inline hid_t minor_of_bad_number() { return H5E_BADID; }
#else
inline hid_t minor_of_bad_number() { return H5E_BADATOM; }
#endif

/// The newest versions of messages, and of selections in a virtual dataset, that libhdf5 reads.
#if H5_VERSION_GE(2, 0, 0)
constexpr unsigned kNewestDatatype = 5;
constexpr unsigned kNewestLayout = 5;
constexpr unsigned kNewestMappings = 1;
#elif H5_VERSION_GE(1, 12, 0)
constexpr unsigned kNewestDatatype = 4;
constexpr unsigned kNewestLayout = 4;
constexpr unsigned kNewestMappings = 0;
#else
constexpr unsigned kNewestDatatype = 3;
constexpr unsigned kNewestLayout = 4;
constexpr unsigned kNewestMappings = 0;
#endif
#if H5_VERSION_GE(1, 12, 0)
constexpr unsigned kNewestPoints = 2;
constexpr unsigned kNewestHyperslab = 3;
#else
constexpr unsigned kNewestPoints = 1;
constexpr unsigned kNewestHyperslab = 2;
#endif

/// Opens a type that H5Tencode() has encoded. The bytes must be followed by zeros, at least as many as a type can read
/// beyond its end: earlier versions are not told how many there are.
inline hid_t decode_type(const void* form, [[maybe_unused]] size_t bytes) {
#if H5_VERSION_GE(2, 0, 0)
  return H5Tdecode2(form, bytes);
#else
  return H5Tdecode(form);
#endif
}

struct LinkInfo {
  H5L_type_t type = H5L_TYPE_ERROR;
  uint64_t address = 0;    // of hard links: the object's
  uint64_t text_size = 0;  // of other links: bytes of the link's value
};

#if H5_VERSION_GE(1, 12, 0)
inline uint64_t address_of(hid_t location, const H5O_token_t& token) {
  haddr_t address = HADDR_UNDEF;
  return H5VLnative_token_to_addr(location, token, &address) < 0 ? HADDR_UNDEF : address;
}
inline hid_t open_object(hid_t file, uint64_t address) {
  H5O_token_t token;
  if (H5VLnative_addr_to_token(file, address, &token) < 0) return H5I_INVALID_HID;
  return H5Oopen_by_token(file, token);
}
inline bool object_info(hid_t object, ObjectInfo& info) {
  H5O_info2_t raw;
  const bool counted = H5Oget_info3(object, &raw, H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS) >= 0;
  if (!counted && H5Oget_info3(object, &raw, H5O_INFO_BASIC) < 0) return false;
  info = {raw.type, address_of(object, raw.token), raw.rc, counted ? raw.num_attrs : kUnknownAttributes};
  return info.address != HADDR_UNDEF;
}
/// The size of an object's header with all its parts. 0: an error.
inline uint64_t header_bytes(hid_t object) {
  H5O_native_info_t raw;
  return H5Oget_native_info(object, &raw, H5O_NATIVE_INFO_HDR) < 0 ? 0 : raw.hdr.space.total;
}
inline bool object_info_by_name(hid_t group, const char* name, ObjectInfo& info, hid_t access = H5P_DEFAULT) {
  H5O_info2_t raw;
  const bool counted = H5Oget_info_by_name3(group, name, &raw, H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS, access) >= 0;
  if (!counted && H5Oget_info_by_name3(group, name, &raw, H5O_INFO_BASIC, access) < 0) return false;
  info = {raw.type, address_of(group, raw.token), raw.rc, counted ? raw.num_attrs : kUnknownAttributes};
  return info.address != HADDR_UNDEF;
}
using RawLinkInfo = H5L_info2_t;
inline LinkInfo link_info(hid_t group, const RawLinkInfo& raw) {
  if (raw.type == H5L_TYPE_HARD) return {raw.type, address_of(group, raw.u.token), 0};
  return {raw.type, 0, raw.u.val_size};
}
inline bool link_info(hid_t group, const char* name, LinkInfo& info) {
  RawLinkInfo raw;
  if (H5Lget_info2(group, name, &raw, H5P_DEFAULT) < 0) return false;
  info = link_info(group, raw);
  return true;
}
inline herr_t iterate_links(hid_t group, H5_index_t index, H5_iter_order_t order,
                            herr_t (*each)(hid_t, const char*, const RawLinkInfo*, void*), void* data) {
  hsize_t position = 0;
  return H5Literate2(group, index, order, &position, each, data);
}
inline void reclaim(hid_t type, hid_t space, void* values) { H5Treclaim(type, space, H5P_DEFAULT, values); }
inline unsigned header_version(hid_t object) {
  H5O_native_info_t raw;
  return H5Oget_native_info(object, &raw, H5O_NATIVE_INFO_HDR) < 0 ? 0 : raw.hdr.version;
}
#else
inline hid_t open_object(hid_t file, uint64_t address) { return H5Oopen_by_addr(file, address); }
inline bool object_info(hid_t object, ObjectInfo& info) {
  H5O_info_t raw;
  const bool counted = H5Oget_info2(object, &raw, H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS) >= 0;
  if (!counted && H5Oget_info2(object, &raw, H5O_INFO_BASIC) < 0) return false;
  info = {raw.type, raw.addr, raw.rc, counted ? raw.num_attrs : kUnknownAttributes};
  return true;
}
inline uint64_t header_bytes(hid_t object) {
  H5O_info_t raw;
  return H5Oget_info2(object, &raw, H5O_INFO_HDR) < 0 ? 0 : raw.hdr.space.total;
}
inline bool object_info_by_name(hid_t group, const char* name, ObjectInfo& info, hid_t access = H5P_DEFAULT) {
  H5O_info_t raw;
  const bool counted = H5Oget_info_by_name2(group, name, &raw, H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS, access) >= 0;
  if (!counted && H5Oget_info_by_name2(group, name, &raw, H5O_INFO_BASIC, access) < 0) return false;
  info = {raw.type, raw.addr, raw.rc, counted ? raw.num_attrs : kUnknownAttributes};
  return true;
}
using RawLinkInfo = H5L_info_t;
inline LinkInfo link_info(hid_t, const RawLinkInfo& raw) {
  if (raw.type == H5L_TYPE_HARD) return {raw.type, raw.u.address, 0};
  return {raw.type, 0, raw.u.val_size};
}
inline bool link_info(hid_t group, const char* name, LinkInfo& info) {
  RawLinkInfo raw;
  if (H5Lget_info(group, name, &raw, H5P_DEFAULT) < 0) return false;
  info = link_info(group, raw);
  return true;
}
inline herr_t iterate_links(hid_t group, H5_index_t index, H5_iter_order_t order,
                            herr_t (*each)(hid_t, const char*, const RawLinkInfo*, void*), void* data) {
  hsize_t position = 0;
  return H5Literate(group, index, order, &position, each, data);
}
inline void reclaim(hid_t type, hid_t space, void* values) { H5Dvlen_reclaim(type, space, H5P_DEFAULT, values); }
inline unsigned header_version(hid_t object) {
  H5O_info_t raw;
  return H5Oget_info2(object, &raw, H5O_INFO_HDR) < 0 ? 0 : raw.hdr.version;
}
#endif

/// Reads a chunk as stored; `to` must have room for its `size` bytes.
inline herr_t read_raw_chunk(hid_t dataset, const hsize_t* start, uint32_t& mask, void* to,
                             [[maybe_unused]] size_t size) {
#if H5_VERSION_GE(2, 0, 0)
  return H5Dread_chunk2(dataset, H5P_DEFAULT, start, &mask, to, &size);
#else
  return H5Dread_chunk(dataset, H5P_DEFAULT, start, &mask, to);
#endif
}

/// Sets members of the driver class that only some versions have.
inline void set_driver_version([[maybe_unused]] H5FD_class_t& driver) {
#if H5_VERSION_GE(1, 14, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(519);  // from the range for private use (256 to 511 is for testing)
#endif
}

/// Lets libhdf5 open a file that is shorter than its superblock says, so that the existing part can be read.
inline void allow_truncated(hid_t file_access) {
  hbool_t yes = true;
  if (H5Pexist(file_access, "skip_eof_check") > 0) H5Pset(file_access, "skip_eof_check", &yes);
}

}  // namespace codecfs::hdf5
