package lookalike

// table has the characters that [Fold] replaces, by Unicode 17: runs of consecutive characters, each
// with the number of its first one, or "+" for the one after the run before, and what each becomes.
// "SP" is a space, and runs are separated by "//".
const table = "a0 SP // aa a // b2 2 3 // b9 1 o // df ss // 131 i ij ij // 17f s // 1c7 lj lj lj nj nj nj // 1f1 dz dz dz // 2b0 h // " +
	"2b2 j r // 2b7 w y // 2e1 l s x // 37e ; // 1d2c a // 1d2e b // 1d30 d e // 1d33 g h i j k l m n // 1d3c o // " +
	"1d3e p r t u w a // 1d47 b d e // 1d4d g // 1d4f k m // 1d52 o // 1d56 p t u // 1d5b v // 1d62 i r u v // 1d9c c // " +
	"1da0 f // 1dbb z // 1e9e ss // 1fef ` // 2000 SP SP SP SP SP SP SP SP SP SP SP // 2024 . .. ... // 202f SP // 203c !! // " +
	"2047 ?? ?! !? // 205f SP // 2070 0 i // 2074 4 5 6 7 8 9 + // 207c = ( ) n 0 1 2 3 4 5 6 7 8 9 + // 208c = ( ) // " +
	"2090 a e o x // 2095 h k l m n p s t // 20a8 rs // 2100 a/c a/s c // 2105 c/o c/u // 210a g h h h h // 2110 i i l l // " +
	"2115 n no // 2119 p q r r r // 2120 sm tel tm // 2124 z // 2128 z // 212a k // 212c b c // 212f e e f // 2133 m o // " +
	"2139 i // 213b fax // 2145 d d e i j // " +
	"2160 i ii iii iv v vi vii viii ix x xi xii l c d m i ii iii iv v vi vii viii ix x xi xii l c d m // " +
	"2460 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 (1) (2) (3) (4) (5) (6) (7) (8) (9) (10) (11) (12) (13) (14) // " +
	"+ (15) (16) (17) (18) (19) (20) 1. 2. 3. 4. 5. 6. 7. 8. 9. 10. 11. 12. 13. 14. 15. 16. 17. 18. 19. 20. (a) (b) (c) (d) // " +
	"+ (e) (f) (g) (h) (i) (j) (k) (l) (m) (n) (o) (p) (q) (r) (s) (t) (u) (v) (w) (x) (y) (z) a b c d e f g h i j k l m n // " +
	"+ o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z 0 // 2a74 ::= == === // 2c7c j v // " +
	"3000 SP // 3250 pte 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 // 32b1 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 // " +
	"32cc hg erg ev ltd // 3371 hpa da au bar ov pc dm dm2 dm3 iu // 3380 pa na // 3383 ma ka kb mb gb cal kcal pf nf // " +
	"338e mg kg hz khz mhz ghz thz // 3396 ml dl kl fm nm // 339c mm cm km mm2 cm2 m2 km2 mm3 cm3 m3 km3 // " +
	"33a9 pa kpa mpa gpa rad // 33b0 ps ns // 33b3 ms pv nv // 33b7 mv kv mv pw nw // 33bd mw kw mw // 33c2 a.m. bq cc cd // " +
	"33c7 co. db gy ha hp in kk km kt lm ln log lx mb mil mol ph p.m. ppm pr sr sv wb // 33ff gal // a7f1 s c f q // " +
	"fb00 ff fi fl ffi ffl st st // fb29 + // fe10 , // fe13 : ; ! ? // fe19 ... // fe30 .. // fe33 _ _ ( ) { } // fe47 [ ] // " +
	"fe4d _ _ _ , // fe52 . // fe54 ; : ? ! // fe59 ( ) { } // fe5f # & * + - < > = // fe68 \\ $ % @ // " +
	"ff01 ! \" # $ % & ' ( ) * + , - . / 0 1 2 3 4 5 6 7 8 9 : ; < = > ? @ a b c d e f g h i j k l m n o p q r s t u v w x y // " +
	"+ z [ \\ ] ^ _ ` a b c d e f g h i j k l m n o p q r s t u v w x y z { | } ~ // 107a5 q // " +
	"1ccd6 a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5 6 7 8 9 // " +
	"1d400 a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d // " +
	"+ e f g h i j k l m n o p q r s t u v w x y z a b c d e f g // " +
	"1d456 i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l // " +
	"+ m n o p q r s t u v w x y z a // 1d49e c d // 1d4a2 g // 1d4a5 j k // 1d4a9 n o p q // 1d4ae s t u v w x y z a b c d // " +
	"1d4bb f // 1d4bd h i j k l m n // " +
	"1d4c5 p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s // " +
	"+ t u v w x y z a b // 1d507 d e f g // 1d50d j k l m n o p q // 1d516 s t u v w x y // " +
	"1d51e a b c d e f g h i j k l m n o p q r s t u v w x y z a b // 1d53b d e f g // 1d540 i j k l m // 1d546 o // " +
	"1d54a s t u v w x y // " +
	"1d552 a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d // " +
	"+ e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j // " +
	"+ k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p // " +
	"+ q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v // " +
	"+ w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z a b // " +
	"+ c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z // " +
	"1d7ce 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 // " +
	"1f100 0. 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, // " +
	"1f110 (a) (b) (c) (d) (e) (f) (g) (h) (i) (j) (k) (l) (m) (n) (o) (p) (q) (r) (s) (t) (u) (v) (w) (x) (y) (z) // " +
	"1f12b c r cd wz // 1f130 a b c d e f g h i j k l m n o p q r s t u v w x y z hv mv sd ss ppv wc // 1f16a mc md mr // " +
	"1f190 dj // 1fbf0 0 1 2 3 4 5 6 7 8 9"
