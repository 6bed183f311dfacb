// Types, ids and error codes are those of netcdf.h. A dimension's id is its index in the variable.

#include "filters/plugins/netcdf_host.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace codecfs::filters {
namespace {

constexpr int kBadId = -33;         // NC_EBADID
constexpr int kNoVariable = -49;    // NC_ENOTVAR
constexpr int kBadDimension = -46;  // NC_EBADDIM
constexpr int kBadType = -45;       // NC_EBADTYPE
constexpr int kNoAttribute = -43;   // NC_ENOTATT
constexpr int kGlobal = -1;         // NC_GLOBAL
constexpr int kFirstUserType = 32;  // NC_FIRSTUSERTYPEID: types without a netCDF number are shown as opaque
constexpr size_t kMaxDimensions = 1024;
constexpr size_t kMaxName = 256;  // NC_MAX_NAME
constexpr const char* kVariableName = "variable";
constexpr std::string_view kDimensionName = "dim";  // and its index

thread_local const ChunkShape* variable_in_call = nullptr;

struct NetcdfType {
  int id;
  const char* name;
};

NetcdfType netcdf_type(const DataType& type) {
  const bool is_unsigned = type.kind == TypeKind::unsigned_int || type.kind == TypeKind::boolean;
  switch (type.kind) {
    case TypeKind::boolean:
    case TypeKind::signed_int:
    case TypeKind::unsigned_int:
    case TypeKind::timedelta:
    case TypeKind::datetime:
      switch (type.size) {
        case 1: return is_unsigned ? NetcdfType{7, "ubyte"} : NetcdfType{1, "byte"};
        case 2: return is_unsigned ? NetcdfType{8, "ushort"} : NetcdfType{3, "short"};
        case 4: return is_unsigned ? NetcdfType{9, "uint"} : NetcdfType{4, "int"};
        case 8: return is_unsigned ? NetcdfType{11, "uint64"} : NetcdfType{10, "int64"};
        default: break;
      }
      break;
    case TypeKind::floating:
      if (type.size == 4) return {5, "float"};
      if (type.size == 8) return {6, "double"};
      break;
    case TypeKind::string:
      if (type.size == 1) return {2, "char"};
      break;
    case TypeKind::object: return {12, "string"};
    default: break;
  }
  return {kFirstUserType, "opaque"};
}

uint64_t netcdf_size(const DataType& type) { return type.kind == TypeKind::object ? sizeof(char*) : type.size; }

void give_name(char* to, const char* name) {
  if (to != nullptr) std::strcpy(to, name);
}

/// The error for a query about any other variable.
int check(int ncid, int varid) {
  if (variable_in_call == nullptr || ncid != NetcdfVariableInCall::kGroup) return kBadId;
  return varid == NetcdfVariableInCall::kVariable ? 0 : kNoVariable;
}

int check_dimension(int ncid, int dimension) {
  if (const int error = check(ncid, NetcdfVariableInCall::kVariable); error != 0) return error;
  return dimension >= 0 && static_cast<size_t>(dimension) < variable_in_call->shape.size() ? 0 : kBadDimension;
}

int no_attribute(int ncid, int varid) {
  if (varid == kGlobal) varid = NetcdfVariableInCall::kVariable;
  const int error = check(ncid, varid);
  return error != 0 ? error : kNoAttribute;
}

void swap_words(unsigned char* bytes, size_t size) { std::reverse(bytes, bytes + size); }

/// The eight bytes of a double or a 64-bit integer, as two parameters in the order of a little-endian machine.
int fix_eight_bytes(unsigned char* bytes, bool is_decoded) {
  constexpr size_t kWord = 4;
  if (bytes == nullptr || std::endian::native == std::endian::little) return 0;
  if (!is_decoded) swap_words(bytes, 2 * kWord);
  for (const size_t at : {size_t{0}, kWord}) swap_words(bytes + at, kWord);
  if (is_decoded) swap_words(bytes, 2 * kWord);
  return 0;
}

}  // namespace

NetcdfVariableInCall::NetcdfVariableInCall(const ChunkShape& chunk) { variable_in_call = &chunk; }
NetcdfVariableInCall::~NetcdfVariableInCall() { variable_in_call = nullptr; }

}  // namespace codecfs::filters

#define CODECFS_EXPORT extern "C" __attribute__((visibility("default"), used))

using namespace codecfs::filters;  // NOLINT: what follows are netCDF's names, in no namespace

CODECFS_EXPORT int nc_inq_var(int ncid, int varid, char* name, int* type, int* dimensions, int* dimension_ids,
                              int* attributes) {
  if (const int error = check(ncid, varid); error != 0) return error;
  const ChunkShape& variable = *variable_in_call;
  const size_t rank = std::min(variable.shape.size(), kMaxDimensions);
  give_name(name, kVariableName);
  if (type != nullptr) *type = netcdf_type(variable.type).id;
  if (dimensions != nullptr) *dimensions = static_cast<int>(rank);
  for (size_t i = 0; dimension_ids != nullptr && i < rank; ++i) dimension_ids[i] = static_cast<int>(i);
  if (attributes != nullptr) *attributes = 0;
  return 0;
}

CODECFS_EXPORT int nc_inq_type(int ncid, int type, char* name, size_t* size) {
  if (const int error = check(ncid, NetcdfVariableInCall::kVariable); error != 0) return error;
  const NetcdfType known = netcdf_type(variable_in_call->type);
  if (type != known.id) return kBadType;
  give_name(name, known.name);
  if (size != nullptr) *size = netcdf_size(variable_in_call->type);
  return 0;
}

CODECFS_EXPORT int nc_inq_dimlen(int ncid, int dimension, size_t* length) {
  if (const int error = check(ncid, NetcdfVariableInCall::kVariable); error != 0) return error;
  if (dimension < 0 || static_cast<size_t>(dimension) >= variable_in_call->shape.size()) return kBadDimension;
  if (length != nullptr) *length = variable_in_call->shape[static_cast<size_t>(dimension)];
  return 0;
}

CODECFS_EXPORT int nc_inq_var_chunking(int ncid, int varid, int* storage, size_t* chunk) {
  if (const int error = check(ncid, varid); error != 0) return error;
  const std::vector<uint64_t>& chunks = variable_in_call->chunks;
  if (storage != nullptr) *storage = 0;  // NC_CHUNKED
  if (chunk != nullptr) std::copy_n(chunks.begin(), std::min(chunks.size(), kMaxDimensions), chunk);
  return 0;
}

CODECFS_EXPORT int nc_inq_var_endian(int ncid, int varid, int* order) {
  if (const int error = check(ncid, varid); error != 0) return error;
  const codecfs::ByteOrder known = variable_in_call->type.order;
  // NC_ENDIAN_NATIVE, _LITTLE, _BIG
  if (order != nullptr) *order = known == codecfs::ByteOrder::little ? 1 : known == codecfs::ByteOrder::big ? 2 : 0;
  return 0;
}

CODECFS_EXPORT int nc_inq_varid(int ncid, const char* name, int* varid) {
  if (const int error = check(ncid, NetcdfVariableInCall::kVariable); error != 0) return error;
  if (name == nullptr || std::string_view(name) != kVariableName) return kNoVariable;
  if (varid != nullptr) *varid = NetcdfVariableInCall::kVariable;
  return 0;
}

CODECFS_EXPORT int nc_inq_varname(int ncid, int varid, char* name) {
  return nc_inq_var(ncid, varid, name, nullptr, nullptr, nullptr, nullptr);
}

CODECFS_EXPORT int nc_inq_vartype(int ncid, int varid, int* type) {
  return nc_inq_var(ncid, varid, nullptr, type, nullptr, nullptr, nullptr);
}

CODECFS_EXPORT int nc_inq_varndims(int ncid, int varid, int* dimensions) {
  return nc_inq_var(ncid, varid, nullptr, nullptr, dimensions, nullptr, nullptr);
}

CODECFS_EXPORT int nc_inq_vardimid(int ncid, int varid, int* dimension_ids) {
  return nc_inq_var(ncid, varid, nullptr, nullptr, nullptr, dimension_ids, nullptr);
}

CODECFS_EXPORT int nc_inq_varnatts(int ncid, int varid, int* attributes) {
  return nc_inq_var(ncid, varid, nullptr, nullptr, nullptr, nullptr, attributes);
}

CODECFS_EXPORT int nc_inq_dimname(int ncid, int dimension, char* name) {
  if (const int error = check_dimension(ncid, dimension); error != 0) return error;
  if (name != nullptr) (void)std::snprintf(name, kMaxName, "%s%d", kDimensionName.data(), dimension);
  return 0;
}

CODECFS_EXPORT int nc_inq_dim(int ncid, int dimension, char* name, size_t* length) {
  const int error = nc_inq_dimname(ncid, dimension, name);
  return error != 0 ? error : nc_inq_dimlen(ncid, dimension, length);
}

CODECFS_EXPORT int nc_inq_dimid(int ncid, const char* name, int* dimension) {
  if (const int error = check(ncid, NetcdfVariableInCall::kVariable); error != 0) return error;
  std::string_view text = name == nullptr ? "" : name;
  if (!text.starts_with(kDimensionName)) return kBadDimension;
  text.remove_prefix(kDimensionName.size());
  int number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return kBadDimension;
  if (const int error = check_dimension(ncid, number); error != 0) return error;
  if (dimension != nullptr) *dimension = number;
  return 0;
}

CODECFS_EXPORT int nc_inq_att(int ncid, int varid, const char*, int*, size_t*) { return no_attribute(ncid, varid); }
CODECFS_EXPORT int nc_inq_atttype(int ncid, int varid, const char*, int*) { return no_attribute(ncid, varid); }
CODECFS_EXPORT int nc_inq_attlen(int ncid, int varid, const char*, size_t*) { return no_attribute(ncid, varid); }
CODECFS_EXPORT int nc_inq_attid(int ncid, int varid, const char*, int*) { return no_attribute(ncid, varid); }
CODECFS_EXPORT int nc_inq_attname(int ncid, int varid, int, char*) { return no_attribute(ncid, varid); }
CODECFS_EXPORT int nc_get_att(int ncid, int varid, const char*, void*) { return no_attribute(ncid, varid); }

CODECFS_EXPORT int ncaux_h5filterspec_fix8(unsigned char* bytes, int decode) {
  return fix_eight_bytes(bytes, decode != 0);
}
CODECFS_EXPORT int NC_hdf5_filterfix8(unsigned char* bytes, int decode) { return fix_eight_bytes(bytes, decode != 0); }
CODECFS_EXPORT int NC_filterfix8(unsigned char* bytes, int decode) { return fix_eight_bytes(bytes, decode != 0); }
