package s3

import (
	"fmt"
	"net/netip"
	"strings"
)

// Lengths of a bucket's name in bytes (Amazon S3 User Guide, "General purpose bucket naming rules").
const (
	minName = 3
	maxName = 63
)

// reservedPrefixes begin no name of a bucket, by the same rules.
var reservedPrefixes = []string{"xn--", "sthree-", "amzn-s3-demo-"}

// checkName returns an error if S3 allows no bucket of that name. Aliases of access points are names of buckets here.
func checkName(name string) error {
	if name == "" {
		return nil // Config.Validate refuses it
	}
	if strings.HasPrefix(name, "arn:") {
		return fmt.Errorf("bucket name %q is an ARN: write the name of the bucket, or the alias of the access point", name)
	}
	if strings.Contains(name, ":") {
		return fmt.Errorf("bucket name %q has a port: write the name of the bucket, and the store's address as endpoint=http://%[1]s", name)
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return fmt.Errorf("bucket name %q is an IP address, which S3 does not allow: write the name of the bucket, and the store's address as endpoint=http://%[1]s", name)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return !letterOrDigit(r) && r != '.' && r != '-' }); i >= 0 {
		r := []rune(name[i:])[0]
		return fmt.Errorf("bucket name %q has the character %q: S3 allows lower-case letters, digits, dots and hyphens", name, r)
	}
	if len(name) < minName || len(name) > maxName {
		return fmt.Errorf("bucket name %q has %d characters: S3 allows %d to %d", name, len(name), minName, maxName)
	}
	if first, last := rune(name[0]), rune(name[len(name)-1]); !letterOrDigit(first) || !letterOrDigit(last) {
		return fmt.Errorf("bucket name %q does not begin and end with a letter or digit, as S3 demands", name)
	}
	if strings.Contains(name, "..") {
		return fmt.Errorf("bucket name %q has two dots in a row, which S3 does not allow", name)
	}
	for _, prefix := range reservedPrefixes {
		if strings.HasPrefix(name, prefix) {
			return fmt.Errorf("bucket name %q begins with %s, which S3 reserves", name, prefix)
		}
	}
	return nil
}

func letterOrDigit(r rune) bool { return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' }
