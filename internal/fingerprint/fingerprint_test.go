package fingerprint_test

import (
	"crypto/aes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"strings"
	"sync"
	"testing"

	"gatehouse.example/internal/fingerprint"
)

// makers are the ways to make a fingerprint.
func makers() map[string]func(string) fingerprint.Print {
	return map[string]func(string) fingerprint.Print{
		"process": fingerprint.Of, "AES": fingerprint.NewMaker([16]byte{1}, [16]byte{2}).Of, "SHA-256": fingerprint.Plain,
	}
}

// TestEqualTextsOnly checks that a text has the same print each time, and that a text that differs in
// a byte, its end or its length has another one. Texts longer than the memory on hand come between.
func TestEqualTextsOnly(t *testing.T) {
	for name, of := range makers() {
		seen := map[fingerprint.Print]string{}
		once := func(text string) {
			p := of(text)
			if other, ok := seen[p]; ok {
				t.Errorf("%s: %d and %d bytes have the same print", name, len(text), len(other))
			}
			seen[p] = text
		}
		for n := range 200 {
			once(strings.Repeat("a", n))
			once(strings.Repeat("\x00", n+1))
		}
		for _, n := range []int{4<<10 - 1, 4 << 10, 4<<10 + 1, 100 << 10} {
			once(strings.Repeat("a", n))
		}
		whole := strings.Repeat("eyJhbGciOiJFUzI1NiJ9.", 40)
		for i := range len(whole) {
			once(whole[:i] + "~" + whole[i+1:])
		}
		for p, text := range seen {
			if of(text) != p {
				t.Errorf("%s: %d bytes have another print the second time", name, len(text))
			}
		}
	}
}

// TestPrintIsWhatItSays computes prints with GHASH as NIST SP 800-38D section 6.3 and 6.4 write it down, bit by
// bit.
func TestPrintIsWhatItSays(t *testing.T) {
	k1, k2 := [16]byte{1, 2, 3}, [16]byte{4, 5, 6}
	m := fingerprint.NewMaker(k1, k2)
	for _, text := range []string{"", "a", "0123456789abcdef", strings.Repeat("token ", 99), strings.Repeat("x", 9000)} {
		tag := xor(ghash(encrypt(k1, block{}), text), encrypt(k1, block{15: 1}))
		want := fingerprint.Print{}
		sum := xor(encrypt(k2, tag), tag)
		copy(want[:], sum[:])
		binary.LittleEndian.PutUint64(want[16:], uint64(len(text)))
		if got := m.Of(text); got != want {
			t.Errorf("%d bytes: %x, want %x", len(text), got, want)
		}
	}
	if fingerprint.Plain("abc") != sha256.Sum256([]byte("abc")) {
		t.Error("the print without AES is no SHA-256")
	}
}

type block [16]byte

func encrypt(key [16]byte, b block) (out block) {
	c, _ := aes.NewCipher(key[:])
	c.Encrypt(out[:], b[:])
	return out
}

func xor(a, b block) block {
	for i := range a {
		a[i] ^= b[i]
	}
	return a
}

// ghash is GHASH of a text as additional data of a message of no bytes.
func ghash(h block, text string) (y block) {
	size := block{}
	binary.BigEndian.PutUint64(size[:], uint64(len(text))*8)
	for len(text) > 0 {
		var next block
		text = text[copy(next[:], text):]
		y = times(xor(y, next), h)
	}
	return times(xor(y, size), h)
}

// times is the product of two blocks (NIST SP 800-38D section 6.3).
func times(x, v block) (z block) {
	for i := range 128 {
		if x[i/8]>>(7-i%8)&1 == 1 {
			z = xor(z, v)
		}
		odd := v[15] & 1
		for j := 15; j > 0; j-- {
			v[j] = v[j]>>1 | v[j-1]<<7
		}
		v[0] >>= 1
		if odd == 1 {
			v[0] ^= 0xe1
		}
	}
	return z
}

// TestKeysCount checks that each of the keys changes the whole print.
func TestKeysCount(t *testing.T) {
	first := fingerprint.NewMaker([16]byte{1}, [16]byte{2}).Of("token")
	for _, keys := range [][2][16]byte{{{3}, {2}}, {{1}, {3}}} {
		if p := fingerprint.NewMaker(keys[0], keys[1]).Of("token"); [8]byte(p[:]) == [8]byte(first[:]) || [8]byte(p[8:]) == [8]byte(first[8:]) {
			t.Errorf("%x and %x", p, first)
		}
	}
}

// TestNothingStays checks that the memory of a fingerprint has nothing of the text afterwards.
func TestNothingStays(t *testing.T) {
	m := fingerprint.NewMaker([16]byte{1}, [16]byte{2})
	for _, n := range []int{1, 500, 4 << 10, 5 << 10} {
		m.Of(strings.Repeat("s", n))
		if left := m.Left(); strings.Trim(string(left), "\x00") != "" {
			t.Errorf("%d bytes: something is left", n)
		}
	}
}

// TestAmongMany makes prints in several goroutines.
func TestAmongMany(t *testing.T) {
	for name, of := range makers() {
		want := map[string]fingerprint.Print{}
		for n := range 50 {
			text := strings.Repeat("t", 40*n)
			want[text] = of(text)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for text, p := range want {
					if of(text) != p {
						t.Errorf("%s: another print of %d bytes", name, len(text))
					}
				}
			})
		}
		all.Wait()
	}
}

// TestHardware checks the offers of crypto/tls with and without instructions for AES, and in FIPS
// 140-3 mode.
func TestHardware(t *testing.T) {
	const aes128, aes256, chacha = tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384, tls.TLS_CHACHA20_POLY1305_SHA256
	for _, c := range []struct {
		offered []uint16
		want    bool
	}{{[]uint16{aes128, aes256, chacha}, true}, {[]uint16{chacha, aes128, aes256}, false}, {[]uint16{aes128, aes256}, false}, {nil, false}} {
		if fingerprint.AESFirst(c.offered) != c.want {
			t.Errorf("%x: %t", c.offered, !c.want)
		}
	}
}

// BenchmarkOf compares the ways for the lengths of an opaque token, and of tokens with ES256 and RS256.
func BenchmarkOf(b *testing.B) {
	for name, of := range makers() {
		for _, text := range []string{strings.Repeat("o", 40), strings.Repeat("e", 450), strings.Repeat("r", 700), strings.Repeat("m", 1500)} {
			b.Run(name+"/"+string(text[0]), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					of(text)
				}
			})
		}
	}
}
