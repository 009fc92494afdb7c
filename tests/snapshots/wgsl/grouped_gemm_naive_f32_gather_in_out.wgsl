@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 8>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_naive_f32_gather_in_out(@builtin(workgroup_id) v127: vec3<u32>, @builtin(local_invocation_id) v131: vec3<u32>) {
let v133 = &v17;
let v134 = &v13;
let v135 = &v9;
let v136 = &v5;
let v137 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v27 = info_var.scalars_usize[6];
let v28 = info_var.scalars_usize[7];
let v128 = v127[0];
let v30 = u32(v128);
let v31 = u32(3);
let v32 = v30 * v31;
let v36 = &(*v135)[v32];
let v37 = *v36;
let v38 = u32(v37);
let v39 = u32(1);
let v40 = v32 + v39;
let v44 = &(*v135)[v40];
let v45 = *v44;
let v46 = u32(v45);
let v129 = v127[1];
let v130 = u32(64);
let v57 = v129 * v130;
let v132 = v131[0];
let v59 = v57 + v132;
let v60 = u32(v59);
let v61 = v38 >= v27;
let v62 = v38 < v28;
let v63 = v61 && v62;
let v64 = v60 < v21;
let v65 = v63 && v64;
if v65 {
let v69 = &(*v136)[v46];
let v70 = *v69;
let v71 = u32(v70);
let v72 = v71 / v23;
let v73 = v72 * v22;
let v74 = f32(1.0);
var<function> v123_store: f32;
let v123 = &v123_store;
*v123 = v74;
let v77 = v38 - v27;
let v78 = v77 * v22;
let v79 = v78 * v21;
let v80 = v79 + v60;
let v81 = f32(0.0);
var<function> v124_store: f32;
let v124 = &v124_store;
*v124 = v81;
for(var v86: u32 = v3; v86 < v22; v86 += v39) {
let v88 = v73 + v86;
let v92 = &(*v137)[v88];
let v93 = *v92;
let v94 = v86 * v21;
let v95 = v80 + v94;
let v99 = &(*v134)[v95];
let v100 = *v99;
let v101 = *v124;
let v102 = fma(v93, v100, v101);
*v124 = v102;

}
var<function> v126_store: f32;
let v126 = &v126_store;
let v104 = *v124;
*v126 = v104;
let v105 = *v126;
let v108 = *v123;
let v109 = v108 * v105;
*v123 = v109;
let v110 = *v123;
let v111 = v46 * v21;
let v112 = v111 + v60;
let v116 = &(*v133)[v112];
*v116 = v110;

}
return;

}
