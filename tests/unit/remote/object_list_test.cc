#include "remote/object_list.h"

#include <gtest/gtest.h>

namespace codecfs::remote {
namespace {

std::string list_of(const std::string& content) { return "<ListBucketResult>" + content + "</ListBucketResult>"; }

TEST(ObjectList, ReadsKeysAndPrefixes) {
  const auto list =
      parse_object_list(list_of("<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
                                "<Contents><Key>a/x+y%2Bz%C3%A9</Key><Size>12</Size><ETag>&quot;e&quot;</ETag>"
                                "<LastModified>1970-01-02T00:00:01.000Z</LastModified></Contents>"
                                "<CommonPrefixes><Prefix>a/b/</Prefix></CommonPrefixes>"),
                        "a/");
  ASSERT_TRUE(list) << list.error().reason;
  ASSERT_EQ(list->objects.size(), 1U);
  EXPECT_EQ(list->objects[0].key, "a/x y+zé");
  EXPECT_EQ(list->objects[0].size, 12U);
  EXPECT_EQ(list->objects[0].etag, "\"e\"");
  EXPECT_EQ(list->objects[0].modified, 86401);
  EXPECT_EQ(list->prefixes, std::vector<std::string>{"a/b/"});
  EXPECT_EQ(list->next, "");
}

TEST(ObjectList, GenerationsArePartOfTheEtag) {
  const std::string text = list_of(
      "<Contents><Key>a</Key><Generation>12</Generation><Size>1</Size><ETag>e</ETag></Contents>"
      "<Contents><Key>b</Key><Size>1</Size><ETag>\"f\"</ETag></Contents>");
  const auto list = parse_object_list(text, "", true).value();
  EXPECT_EQ(list.objects[0].etag, "\"e\"#12");
  EXPECT_EQ(list.objects[1].etag, "\"f\"");
  EXPECT_EQ(parse_object_list(text, "").value().objects[0].etag, "e");
}

TEST(ObjectList, KeysThatAreNotEncodedStayAsTheyAre) {
  const auto list = parse_object_list(list_of("<Contents><Key>a+%41</Key><Size>0</Size></Contents>"), "");
  EXPECT_EQ(list.value().objects[0].key, "a+%41");
}

TEST(ObjectList, RefusesWhatCannotBeRight) {
  for (const std::string& text : {list_of("<Contents><Key>b/x</Key><Size>1</Size></Contents>"),     // another prefix
                                  list_of("<CommonPrefixes><Prefix>b/</Prefix></CommonPrefixes>"),  // the same
                                  list_of("<Contents><Key>a/x</Key><Size>-1</Size></Contents>"),    // no size
                                  list_of("<Contents><Key>a/x</Key></Contents>"),                   // the same
                                  list_of("<IsTruncated>true</IsTruncated>"),                       // goes on nowhere
                                  std::string("<Error><Code>x</Code></Error>"), std::string("<html>"), std::string()})
    EXPECT_EQ(parse_object_list(text, "a/").error().code, EIO) << text;
}

TEST(ObjectList, ReadsErrors) {
  const ObjectError error =
      parse_object_error("<Error><Code>NoSuchKey</Code><Message>a\nb</Message><Region>r</Region></Error>");
  EXPECT_EQ(error.code, "NoSuchKey");
  EXPECT_EQ(error.message, "a b");
  EXPECT_EQ(error.region, "r");
  EXPECT_EQ(parse_object_error("<html></html>").code, "");
  EXPECT_EQ(parse_object_error("").code, "");
}

}  // namespace
}  // namespace codecfs::remote
