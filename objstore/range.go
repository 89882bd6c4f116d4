package objstore

// Range gives what a Get of those bounds means of an object of that size. ok is false where it is ErrRange.
func Range(offset, length, size int64) (from, n int64, ok bool) {
	if offset < 0 && length < 0 {
		offset = max(size+offset, 0)
	} else if offset == 0 && length < 0 {
		return 0, size, true
	}
	if offset < 0 || offset >= size || length == 0 {
		return 0, 0, false
	}
	if length < 0 || length > size-offset {
		length = size - offset
	}
	return offset, length, true
}
