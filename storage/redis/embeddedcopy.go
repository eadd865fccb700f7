package redis

import (
	"bytes"

	"gatehouse.example/storage"
)

// maxShared is the limit of the memory that items share, in bytes, unless a single one is larger: it
// stays for as long as one of them is in use.
const maxShared = 64 << 10

// copyData gives the first of some items data of their own, which whoever reads them may change, and
// returns how many. One piece of memory for many costs a fraction of one for each.
func copyData(items []storage.Item) (n int) {
	parts, size := make([][]byte, 0, len(items)), 0
	for _, item := range items {
		if size += len(item.Data); size > maxShared && len(parts) > 0 {
			break
		}
		parts = append(parts, item.Data)
	}
	shared := bytes.Join(parts, nil)
	for i, part := range parts {
		end := len(part)
		items[i].Data, shared = shared[:end:end], shared[end:] // an append to one must not reach the next
	}
	return len(parts)
}
