// The metadata of variables: types that h5py cannot create or numpy cannot name, fill values, attributes.

#include <array>
#include <fstream>
#include <iterator>

#include "backends/hdf5/library/library_lock.h"
#include "model/json.h"
#include "support/hdf5_testing.h"

namespace codecfs {
namespace {

using namespace hdf5_testing;

class Hdf5Facts : public Hdf5Files {};

DataType plain(TypeKind kind, ByteOrder order, uint64_t size) { return {kind, order, size, {}, {}}; }

TEST_F(Hdf5Facts, OddNumbersAreRawBytesWithTheirTypeTold) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle three(H5Tcopy(H5T_STD_I32LE));
    H5Tset_precision(three.get(), 24);
    H5Tset_size(three.get(), 3);
    make_dataset(file, "int24", three.get(), {4});
    const Handle bfloat(H5Tcopy(H5T_IEEE_F32LE));
    H5Tset_fields(bfloat.get(), 15, 7, 8, 0, 7);
    H5Tset_precision(bfloat.get(), 16);
    H5Tset_size(bfloat.get(), 2);
    make_dataset(file, "bfloat16", bfloat.get(), {4});
    make_dataset(file, "long_double", H5T_NATIVE_LDOUBLE, {4});
    make_dataset(file, "time", H5T_UNIX_D32LE, {4});
    const Handle half(H5Tcopy(H5T_IEEE_F32BE));
    H5Tset_fields(half.get(), 15, 10, 5, 0, 10);
    H5Tset_precision(half.get(), 16);
    H5Tset_ebias(half.get(), 15);
    H5Tset_size(half.get(), 2);
    write_all(make_dataset(file, "half", half.get(), {2}), H5T_NATIVE_FLOAT, std::vector<float>{1, -2});
  }
  auto source = open_source_of(path());
  for (const auto& [name, size] : std::vector<std::pair<std::string, uint64_t>>{
           {"int24", 3}, {"bfloat16", 2}, {"long_double", sizeof(long double)}, {"time", 4}}) {
    const VariablePtr variable = variable_at(*source, name);
    EXPECT_EQ(variable->type, plain(TypeKind::raw, ByteOrder::none, size)) << name;
    EXPECT_FALSE(variable->type_text.empty() && name != "time") << name;
    EXPECT_FALSE(variable->unreadable) << name;
  }
  EXPECT_EQ(variable_at(*source, "bfloat16")->zarr3_type, "bfloat16");
  EXPECT_EQ(variable_at(*source, "half")->type, plain(TypeKind::floating, ByteOrder::big, 2));
  EXPECT_EQ(elements_of<uint8_t>(*source->read_chunk(object_at(*source, "half"), 0)),
            (std::vector<uint8_t>{0x3c, 0, 0xc0, 0}));
}

TEST_F(Hdf5Facts, NarrowIntegersAreConverted) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle narrow(H5Tcopy(H5T_STD_I16BE));
    H5Tset_precision(narrow.get(), 9);
    H5Tset_offset(narrow.get(), 4);
    write_all(make_dataset(file, "v", narrow.get(), {3}), H5T_NATIVE_INT, std::vector{-2, 5, 255});
    const Handle compound(H5Tcreate(H5T_COMPOUND, 4));
    H5Tinsert(compound.get(), "n", 1, narrow.get());
    struct Pair {
      int n;
    };
    const Handle memory(H5Tcreate(H5T_COMPOUND, sizeof(Pair)));
    H5Tinsert(memory.get(), "n", 0, H5T_NATIVE_INT);
    write_all(make_dataset(file, "inside", compound.get(), {2}), memory.get(), std::vector<Pair>{{-2}, {7}});
  }
  auto source = open_source_of(path());
  EXPECT_EQ(variable_at(*source, "v")->type, plain(TypeKind::signed_int, ByteOrder::big, 2));
  EXPECT_EQ(elements_of<uint8_t>(*source->read_chunk(object_at(*source, "v"), 0)),
            (std::vector<uint8_t>{0xff, 0xfe, 0, 5, 0, 255}));
  const VariablePtr inside = variable_at(*source, "inside");
  ASSERT_EQ(inside->type.members.size(), 3U);
  EXPECT_EQ(inside->type.members[0].name, "__pad0");
  EXPECT_EQ(inside->type.members[2].name, "__pad1");
  const auto bytes = elements_of<uint8_t>(*source->read_chunk(object_at(*source, "inside"), 0));
  EXPECT_EQ(bytes[1], 0xff);
  EXPECT_EQ(bytes[2], 0xfe);
  EXPECT_EQ(bytes[6], 7);
}

TEST_F(Hdf5Facts, TextIsVlenUtf8) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle text(H5Tcopy(H5T_C_S1));
    H5Tset_size(text.get(), H5T_VARIABLE);
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk[] = {2};
    const char* fill = "nil";
    H5Pset_chunk(properties.get(), 1, chunk);
    H5Pset_fill_value(properties.get(), text.get(), &fill);
    write_all(make_dataset(file, "v", text.get(), {3}, properties.get()), text.get(),
              std::vector<const char*>{"a", "", "bcd"});
  }
  auto source = open_source_of(path());
  const VariablePtr variable = variable_at(*source, "v");
  EXPECT_EQ(variable->type.kind, TypeKind::object);
  EXPECT_EQ(variable->object_codec, (Json{{"id", "vlen-utf8"}}));
  EXPECT_FALSE(variable->chunk_bytes);
  const auto text_of = [&](uint64_t number) {
    const auto bytes = elements_of<char>(*source->read_chunk(object_at(*source, "v"), number));
    return std::string(bytes.begin(), bytes.end());
  };
  using std::string_literals::operator""s;
  EXPECT_EQ(text_of(0), "\2\0\0\0\1\0\0\0a\0\0\0\0"s);
  EXPECT_EQ(text_of(1), "\2\0\0\0\3\0\0\0bcd\3\0\0\0nil"s) << "beyond the edge there is fill";
}

TEST_F(Hdf5Facts, FillValueIsShownWhereAnAttributeConfirmsIt) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    const int fill = 300;
    H5Pset_fill_value(properties.get(), H5T_NATIVE_INT, &fill);
    const Handle space(H5Screate(H5S_SCALAR));
    for (const auto& [name, value] :
         std::vector<std::pair<std::string, int>>{{"same", 300}, {"other", 301}, {"none", 0}}) {
      const Handle dataset = make_dataset(file, name, H5T_STD_I16BE, {2}, properties.get());
      if (value == 0) continue;
      const Handle attribute(
          H5Acreate2(dataset.get(), "_FillValue", H5T_STD_I32LE, space.get(), H5P_DEFAULT, H5P_DEFAULT));
      H5Awrite(attribute.get(), H5T_NATIVE_INT, &value);
    }
  }
  auto source = open_source_of(path());
  EXPECT_EQ(variable_at(*source, "same")->fill_value, Json(300));
  EXPECT_TRUE(variable_at(*source, "other")->fill_value.is_null());
  EXPECT_TRUE(variable_at(*source, "none")->fill_value.is_null());
  EXPECT_EQ(variable_at(*source, "none")->fill, (std::vector{std::byte{1}, std::byte{44}}));
  const std::vector<Attribute> attributes = variable_at(*source, "same")->attributes;
  ASSERT_EQ(attributes.size(), 2U) << "_FillValue stays an attribute";
  EXPECT_EQ(attributes[1].name, kPhonyDimensions);
}

TEST_F(Hdf5Facts, AttributesAsJson) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const auto write = [&](const char* name, hid_t type, const std::vector<hsize_t>& dims, const void* value) {
      const Handle space(dims.empty() ? H5Screate(H5S_SCALAR)
                                      : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
      const Handle attribute(H5Acreate2(file.get(), name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT));
      ASSERT_GE(H5Awrite(attribute.get(), type, value), 0) << name;
    };
    const float tenth = 0.1F;
    write("float", H5T_NATIVE_FLOAT, {}, &tenth);
    const uint64_t large = ~uint64_t{0};
    write("uint64", H5T_NATIVE_UINT64, {1}, &large);
    const int matrix[] = {1, 2, 3, 4, 5, 6};
    write("matrix", H5T_NATIVE_INT, {2, 3}, matrix);
    const Handle latin(H5Tcopy(H5T_C_S1));
    H5Tset_size(latin.get(), 6);
    H5Tset_strpad(latin.get(), H5T_STR_SPACEPAD);
    write("latin", latin.get(), {}, "\xe9t\xe9   ");
    const Handle huge(H5Tarray_create2(H5T_NATIVE_INT, 1, std::array<hsize_t, 1>{10}.data()));
    const int ten[10] = {};
    write("array", huge.get(), {}, ten);
    const Handle sequence(H5Tvlen_create(H5T_NATIVE_INT));
    hvl_t values{3, const_cast<int*>(matrix)};
    write("sequence", sequence.get(), {}, &values);
    hobj_ref_t reference = 0;
    H5Rcreate(&reference, file.get(), "/", H5R_OBJECT, -1);
    write("reference", H5T_STD_REF_OBJ, {}, &reference);
    const Handle null(H5Screate(H5S_NULL));
    const Handle empty(H5Acreate2(file.get(), "null", H5T_NATIVE_INT, null.get(), H5P_DEFAULT, H5P_DEFAULT));
  }
  auto source = open_source_of(path());
  const auto attributes = source->group_attributes(source->root().object);
  ASSERT_TRUE(attributes);
  Json shown = Json::object();
  for (const Attribute& attribute : *attributes) shown[attribute.name] = attribute.value;
  EXPECT_EQ(print_json(shown["float"]), "0.1");
  EXPECT_EQ(shown["uint64"], Json::array({~uint64_t{0}}));
  EXPECT_EQ(shown["matrix"], Json::parse("[[1,2,3],[4,5,6]]"));
  EXPECT_EQ(shown["latin"], "\u00e9t\u00e9");
  EXPECT_EQ(shown["array"].size(), 10U);
  EXPECT_EQ(shown["sequence"], Json::parse("[1,2,3]"));
  EXPECT_TRUE(shown["null"].is_null());
  EXPECT_FALSE(shown.contains("reference"));
  EXPECT_EQ(source->format(), "HDF5");
}

TEST_F(Hdf5Facts, DamagedAttributesLeaveTheRest) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle dataset = make_dataset(file, "v", H5T_NATIVE_INT, {3, 2});
    write_all(dataset, H5T_NATIVE_INT, std::vector{1, 2, 3, 4, 5, 6});
    const Handle space(H5Screate(H5S_SCALAR));
    const Handle attribute(
        H5Acreate2(dataset.get(), "an_attribute", H5T_NATIVE_INT, space.get(), H5P_DEFAULT, H5P_DEFAULT));
  }
  std::string bytes;
  {
    std::ifstream file(path(), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  const size_t name = bytes.find("an_attribute");
  ASSERT_NE(name, std::string::npos);
  bytes[name - 6] = char(0xff);  // the size of the name: 8 bytes of sizes and version are before it
  std::ofstream(path(), std::ios::binary) << bytes;
  const auto opened = open_hdf5(path(), true);
  ASSERT_TRUE(opened);
  const std::unique_ptr<Source>& source = *opened;
  const VariablePtr variable = variable_at(*source, "v");
  ASSERT_TRUE(variable);
  ASSERT_TRUE(variable->unreadable_attributes);
  EXPECT_EQ(variable->unreadable_attributes->code, EIO);
  EXPECT_NE(variable->unreadable_attributes->reason.find("/v: the attributes cannot be listed"), std::string::npos);
  EXPECT_TRUE(variable->attributes.empty());
  EXPECT_EQ(variable->dimensions->size(), 2U);
  EXPECT_EQ(elements_of<int>(*source->read_chunk(object_at(*source, "v"), 0)), (std::vector{1, 2, 3, 4, 5, 6}));
  const Attribute units{"units", Json("K")};
  EXPECT_EQ(source->set_attributes(object_at(*source, "v"), std::span(&units, 1), {}).error().code, EIO);
}

TEST_F(Hdf5Facts, AFillOfZerosOfLargeElementsTakesNoMemory) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle large(H5Tcreate(H5T_OPAQUE, size_t{100} << 20));
    make_dataset(file, "large", large.get(), {2});
    const Handle small(H5Tcreate(H5T_OPAQUE, 1000));
    make_dataset(file, "small", small.get(), {2});
  }
  auto source = open_source_of(path());
  EXPECT_EQ(variable_at(*source, "large")->type, plain(TypeKind::raw, ByteOrder::none, uint64_t{100} << 20));
  EXPECT_TRUE(variable_at(*source, "large")->fill.empty());
  EXPECT_TRUE(variable_at(*source, "large")->fill_value.is_null());
  EXPECT_EQ(variable_at(*source, "small")->fill, std::vector<std::byte>(1000));
}

}  // namespace
}  // namespace codecfs
