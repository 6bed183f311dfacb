// Types, ids and error codes are those of netcdf.h. A dimension's id is its index in the variable.

#include "filters/plugins/netcdf_host.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace codecfs::filters {
namespace {

constexpr int kBadId = -33;         // NC_EBADID
constexpr int kNoVariable = -49;    // NC_ENOTVAR
constexpr int kBadDimension = -46;  // NC_EBADDIM
constexpr int kBadType = -45;       // NC_EBADTYPE
constexpr int kFirstUserType = 32;  // NC_FIRSTUSERTYPEID: types without a netCDF number are shown as opaque
constexpr size_t kMaxDimensions = 1024;

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
  give_name(name, "variable");
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
