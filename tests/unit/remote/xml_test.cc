#include "remote/xml.h"

#include <gtest/gtest.h>

#include <string>

namespace codecfs::remote {
namespace {

TEST(Xml, ReadsAnObjectList) {
  const auto root = parse_xml(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\n"
      "  <IsTruncated>false</IsTruncated>\n"
      "  <!-- two --><Contents a='b'><Key>a&amp;b &lt;&#233;<![CDATA[<c>]]></Key><Size>1</Size></Contents>\n"
      "  <Contents><Key> x </Key><Owner/></Contents>\n"
      "</ListBucketResult>\n");
  ASSERT_TRUE(root) << root.error().reason;
  EXPECT_EQ(root->name, "ListBucketResult");
  EXPECT_EQ(root->text, "");
  ASSERT_EQ(root->children.size(), 3u);
  EXPECT_EQ(root->child_text("IsTruncated"), "false");
  EXPECT_EQ(root->child("Contents"), &root->children[1]);
  EXPECT_EQ(root->children[1].child_text("Key"), "a&b <\u00e9<c>");
  EXPECT_EQ(root->children[2].child_text("Key"), " x ");
  EXPECT_EQ(root->children[2].child_text("Owner"), "");
  EXPECT_EQ(root->child("Absent"), nullptr);
  EXPECT_EQ(root->child_text("Absent"), "");
}

TEST(Xml, DropsThePrefixOfANamespace) {
  const auto root = parse_xml("<s:A xmlns:s='urn:x'><s:B>1</s:B></s:A>");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->name, "A");
  EXPECT_EQ(root->child_text("B"), "1");
}

TEST(Xml, RefusesDocumentTypes) {
  for (const std::string text : {"<!DOCTYPE a><a/>", "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
                                 "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><a>&b;</a>"}) {
    const auto root = parse_xml(text);
    ASSERT_FALSE(root) << text;
    EXPECT_EQ(root.error().code, EINVAL);
    EXPECT_NE(root.error().reason.find("document type"), std::string::npos) << root.error().reason;
  }
}

TEST(Xml, RefusesMalformedText) {
  for (const std::string text : {"", "x", "<a>", "<a></b>", "<a/><b/>", "<a>&nbsp;</a>", "<a>\xff</a>", "{}"}) {
    const auto root = parse_xml(text);
    ASSERT_FALSE(root) << text;
    EXPECT_EQ(root.error().code, EINVAL);
  }
  EXPECT_NE(parse_xml("<a>\n<b></a>").error().reason.find("line 2"), std::string::npos);
}

TEST(Xml, Limits) {
  const auto nested = [](size_t depth) {
    std::string text;
    for (size_t i = 0; i < depth; ++i) text += "<a>";
    for (size_t i = 0; i < depth; ++i) text += "</a>";
    return text;
  };
  EXPECT_TRUE(parse_xml(nested(kMaxXmlDepth)));
  EXPECT_EQ(parse_xml(nested(kMaxXmlDepth + 1)).error().code, EFBIG);
  const auto wide = [](size_t count) {
    std::string text = "<r>";
    for (size_t i = 1; i < count; ++i) text += "<a/>";
    return text + "</r>";
  };
  EXPECT_TRUE(parse_xml(wide(kMaxXmlElements)));
  EXPECT_EQ(parse_xml(wide(kMaxXmlElements + 1)).error().code, EFBIG);
  EXPECT_EQ(parse_xml("<a>" + std::string(kMaxXmlBytes, 'x') + "</a>").error().code, EFBIG);
}

}  // namespace
}  // namespace codecfs::remote
