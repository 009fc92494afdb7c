@group(0) @binding(5) var<storage, read_write> v21: array<f32>;
@group(0) @binding(4) var<storage, read> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 8>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_naive_f32_sorted_bias(@builtin(workgroup_id) v144: vec3<u32>, @builtin(local_invocation_id) v148: vec3<u32>) {
let v151 = &v21;
let v152 = &v17;
let v153 = &v13;
let v154 = &v9;
let v155 = &v5;
let v156 = &v1;
let v3 = u32(0);
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v31 = info_var.scalars_usize[6];
let v32 = info_var.scalars_usize[7];
let v145 = v144[0];
let v34 = u32(v145);
let v35 = u32(3);
let v36 = v34 * v35;
let v40 = &(*v154)[v36];
let v41 = *v40;
let v42 = u32(v41);
let v43 = u32(1);
let v44 = v36 + v43;
let v48 = &(*v154)[v44];
let v49 = *v48;
let v50 = u32(v49);
let v146 = v144[1];
let v147 = u32(64);
let v61 = v146 * v147;
let v149 = v148[0];
let v63 = v61 + v149;
let v64 = u32(v63);
let v65 = v42 >= v31;
let v66 = v42 < v32;
let v67 = v65 && v66;
let v68 = v64 < v25;
let v69 = v67 && v68;
if v69 {
let v70 = v50 * v26;
let v71 = f32(1.0);
var<function> v140_store: f32;
let v140 = &v140_store;
*v140 = v71;
let v74 = v42 - v31;
let v75 = v74 * v25;
let v81 = v75 + v64;
let v82 = v81 * v26;
let v83 = f32(0.0);
var<function> v141_store: f32;
let v141 = &v141_store;
*v141 = v83;
for(var v88: u32 = v3; v88 < v26; v88 += v43) {
let v90 = v70 + v88;
let v94 = &(*v156)[v90];
let v95 = *v94;
let v98 = v82 + v88;
let v102 = &(*v153)[v98];
let v103 = *v102;
let v104 = *v141;
let v105 = fma(v95, v103, v104);
*v141 = v105;

}
var<function> v143_store: f32;
let v143 = &v143_store;
let v107 = *v141;
*v143 = v107;
let v112 = v42 * v25;
let v113 = v112 + v64;
let v117 = &(*v152)[v113];
let v118 = *v117;
let v119 = *v143;
let v120 = v119 + v118;
*v143 = v120;
let v121 = *v143;
let v124 = *v140;
let v125 = v124 * v121;
*v140 = v125;
let v126 = *v140;
let v127 = v50 * v25;
let v128 = v127 + v64;
let v132 = &(*v151)[v128];
*v132 = v126;

}
return;

}
