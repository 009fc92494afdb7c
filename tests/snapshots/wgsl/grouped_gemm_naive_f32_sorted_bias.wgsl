@group(0) @binding(5) var<storage, read_write> v21: array<f32>;
@group(0) @binding(4) var<storage, read> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 6>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_naive_f32_sorted_bias(@builtin(workgroup_id) v134: vec3<u32>, @builtin(local_invocation_id) v139: vec3<u32>) {
let v142 = &v21;
let v143 = &v17;
let v144 = &v13;
let v145 = &v9;
let v146 = &v5;
let v147 = &v1;
let v3 = u32(0);
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v28 = info_var.scalars_usize[3];
let v29 = info_var.scalars_usize[4];
let v135 = v134[0];
let v31 = u32(v135);
let v32 = u32(2);
let v33 = v32 * v31;
let v34 = u32(1);
let v35 = v33 + v34;
let v39 = &(*v145)[v35];
let v40 = *v39;
let v41 = u32(v40);
let v49 = &(*v145)[v33];
let v50 = *v49;
let v51 = u32(v50);
let v137 = v134[1];
let v138 = u32(64);
let v54 = v137 * v138;
let v140 = v139[0];
let v56 = v54 + v140;
let v57 = u32(v56);
let v58 = v51 >= v28;
let v59 = v51 < v29;
let v60 = v58 && v59;
let v61 = v57 < v25;
let v62 = v60 && v61;
if v62 {
let v63 = v51 - v28;
let v64 = f32(1.0);
var<function> v131_store: f32;
let v131 = &v131_store;
*v131 = v64;
let v67 = v63 * v25;
let v73 = v67 + v57;
let v74 = v73 * v26;
let v75 = f32(0.0);
var<function> v132_store: f32;
let v132 = &v132_store;
*v132 = v75;
for(var v80: u32 = v3; v80 < v26; v80 += v34) {
let v82 = v41 * v26;
let v83 = v82 + v80;
let v87 = &(*v147)[v83];
let v88 = *v87;
let v91 = v74 + v80;
let v95 = &(*v144)[v91];
let v96 = *v95;
let v97 = *v132;
let v98 = fma(v88, v96, v97);
*v132 = v98;

}
let v103 = v51 * v25;
let v104 = v103 + v57;
let v108 = &(*v143)[v104];
let v109 = *v108;
let v110 = *v132;
let v111 = v110 + v109;
*v132 = v111;
let v112 = *v132;
let v115 = *v131;
let v116 = v115 * v112;
*v131 = v116;
let v117 = *v131;
let v118 = v41 * v25;
let v119 = v118 + v57;
let v123 = &(*v142)[v119];
*v123 = v117;

}
return;

}
