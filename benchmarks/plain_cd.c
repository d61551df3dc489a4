/* n_i, n_j and n_k of every paper, written plainly: stamps of four bytes, binary search, one thread.
   Papers are numbered by year; papers[0..n) of years[p] count the citers with starts[y + 1] <= number < starts[y + 1 + window],
   where y is the year counted from the first and starts has last + 1 entries. The rows of citers ascend. */
#include <stdint.h>

static int64_t first_from(const int32_t *row, int64_t begin, int64_t end, int64_t low) {
    while (begin < end) {
        int64_t middle = begin + (end - begin) / 2;
        if (row[middle] < low) begin = middle + 1;
        else end = middle;
    }
    return begin;
}

void count(int64_t n, const int16_t *years, int64_t first_year, int64_t window, const int64_t *starts, int64_t last,
           const int64_t *ref_indptr, const int32_t *ref_indices, const int64_t *cit_indptr, const int32_t *citers,
           int32_t *stamp, int64_t *n_i, int64_t *n_j, int64_t *n_k) {
    for (int64_t p = 0; p < n; p++) {
        int64_t y = years[p] - first_year;
        int64_t low = starts[y + 1], high = starts[y + 1 + window < last ? y + 1 + window : last];
        int32_t mark = (int32_t)p + 1;
        int64_t reached = 0, both = 0, alone = 0;
        for (int64_t e = ref_indptr[p]; e < ref_indptr[p + 1]; e++) {
            int32_t r = ref_indices[e];
            int64_t end = cit_indptr[r + 1];
            for (int64_t i = first_from(citers, cit_indptr[r], end, low); i < end && citers[i] < high; i++) {
                reached += stamp[citers[i]] != mark;
                stamp[citers[i]] = mark;
            }
        }
        int64_t end = cit_indptr[p + 1];
        for (int64_t i = first_from(citers, cit_indptr[p], end, low); i < end && citers[i] < high; i++) {
            if (stamp[citers[i]] == mark) both++;
            else alone++;
        }
        n_i[p] = alone;
        n_j[p] = both;
        n_k[p] = reached - both;
    }
}
