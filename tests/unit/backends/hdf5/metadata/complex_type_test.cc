// H5T_COMPLEX, which HDF5 2.0 has added, as h5py's complex numbers of earlier versions.
#include "backends/hdf5/library/complex_type.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstring>

#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/metadata/attribute_encode.h"
#include "backends/hdf5/metadata/type_map.h"
#include "support/hdf5_change_testing.h"

namespace codecfs::hdf5 {
namespace {

TEST(ComplexType, OtherTypesHaveNoPart) {
  const LibraryLock lock;
  EXPECT_FALSE(complex_part(H5T_NATIVE_FLOAT));
  EXPECT_FALSE(complex_part(H5I_INVALID_HID));
}

#if H5_VERSION_GE(2, 0, 0)
TEST(ComplexType, IsNumpysComplex) {
  const LibraryLock lock;
  EXPECT_EQ(print_dtype(map_type(H5T_COMPLEX_IEEE_F32LE)->type), Json("<c8"));
  EXPECT_EQ(print_dtype(map_type(H5T_COMPLEX_IEEE_F64BE)->type), Json(">c16"));
  EXPECT_FALSE(map_type(H5T_COMPLEX_IEEE_F64BE)->tell);
  EXPECT_TRUE(map_type(H5T_COMPLEX_IEEE_F16LE)->tell);
  EXPECT_EQ(print_dtype(map_type(H5T_COMPLEX_IEEE_F16LE)->type), Json("|V4"));  // numpy has none
  EXPECT_NE(type_text(H5T_COMPLEX_IEEE_F32LE).find("H5T_COMPLEX"), std::string::npos);
}

TEST(ComplexType, AttributesArePairs) {
  const LibraryLock lock;
  std::vector<std::byte> bytes;
  std::deque<std::string> texts;
  const Json value = {1.5, -2.0};
  const Json* const item = &value;
  ASSERT_TRUE(encode_items(H5T_NATIVE_DOUBLE_COMPLEX, H5T_COMPLEX_IEEE_F64LE, {&item, 1}, bytes, texts));
  std::complex<double> number;
  ASSERT_EQ(bytes.size(), sizeof number);
  std::memcpy(&number, bytes.data(), sizeof number);
  EXPECT_EQ(number, std::complex(1.5, -2.0));
  const Json wrong = {1.5, "x"};
  const Json* const no_number = &wrong;
  EXPECT_FALSE(encode_items(H5T_NATIVE_DOUBLE_COMPLEX, H5T_COMPLEX_IEEE_F64LE, {&no_number, 1}, bytes, texts));
}

class ComplexFile : public hdf5_testing::Hdf5Changes {};

TEST_F(ComplexFile, IsRead) {
  const std::complex<double> number(1.5, -2.0);
  {
    const LibraryLock lock;
    const Handle file(H5Fcreate(path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    const Handle one(H5Screate(H5S_SCALAR));
    const hsize_t length = 4;
    const Handle four(H5Screate_simple(1, &length, nullptr));
    const Handle variable(
        H5Dcreate2(file.get(), "v", H5T_COMPLEX_IEEE_F32LE, four.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    const Handle attribute(
        H5Acreate2(variable.get(), "a", H5T_COMPLEX_IEEE_F64LE, one.get(), H5P_DEFAULT, H5P_DEFAULT));
    ASSERT_GE(H5Awrite(attribute.get(), H5T_NATIVE_DOUBLE_COMPLEX, &number), 0);
  }
  const auto shown = variable("v");
  ASSERT_TRUE(shown);
  EXPECT_EQ(print_dtype(shown->type), Json("<c8"));
  const auto shown_as = std::ranges::find(shown->attributes, "a", &Attribute::name);
  ASSERT_NE(shown_as, shown->attributes.end());
  EXPECT_EQ(shown_as->value, (Json{1.5, -2.0}));
  EXPECT_EQ(shown_as->stored_type, Json(Json{{"complex", "<f8"}}));
  EXPECT_EQ(shown->stored_type, Json(Json{{"complex", "<f4"}}));
}
#endif

}  // namespace
}  // namespace codecfs::hdf5
